//! The way to one server: what is asked goes out in the order in which it was asked, and nobody waits for a batch.
//!
//! Requests lie in a queue until the link's task takes whatever has come and hands it over as one write, or a few if it
//! is much; several batches may be under way. A connection is given up when it ends, when nothing is heard there while
//! something is not answered in time, and when it has fallen silent although its server answers on another one, which
//! takes its place. Then everyone under way there is told that the outcome is unknown. While the task cannot connect,
//! whoever asks hears why soon. All of it runs on one runtime, mostly that of the keeper.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tidelock::{Error, ErrorKind, Options, Result, unharmed};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;

use crate::dial::{self, Dial};
use crate::news::News;
use crate::pulse::{self, Pulse};
use crate::tenure::Tenure;
use crate::{script, trouble};

/// How many requests go out together at most.
const BATCH: usize = 256;
/// How many bytes, or a little more. A batch is heard of when all of it is answered, so where much is asked by a narrow
/// way the connection would look silent.
const BYTES: usize = 16 * 1024;
/// After how long a silence a connection is compared with a new one, if there is time for more.
const DOUBT: Duration = Duration::from_millis(500);
/// The longest pause between tries to connect is no shorter than this, whatever deadlines say: a server that is down is
/// not to be asked a thousand times in a second.
const PAUSE: Duration = Duration::from_millis(20);

/// A handle to the task; dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Link {
    queue: UnboundedSender<Request>,
    place: Arc<str>,
    was_heard: Arc<AtomicBool>,
    task: AbortHandle,
}

/// How long a link waits for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
    /// After how long a silence it doubts its connection.
    pub(crate) doubt: Duration,
    /// How long a renewal may take: later it could come too late.
    pub(crate) renewal: Duration,
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
}

/// What every connection of a session is made with.
#[derive(Clone, Debug)]
pub(crate) struct Reach {
    pub(crate) news: Arc<News>,
    /// On which channel news are heard, if they are.
    pub(crate) channel: Option<String>,
    pub(crate) patience: Patience,
    pub(crate) runtime: Handle,
    /// Whether callers' runtimes get connections of their own.
    pub(crate) has_locals: bool,
}

/// What becomes of a command whose asker has lost interest before it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenDropped {
    /// It is not sent.
    Forget,
    /// It is sent all the same.
    Send,
}

/// What is asked, and whom to answer.
struct Request {
    commands: Vec<Cmd>,
    reply: oneshot::Sender<Result<Vec<Value>>>,
    when_dropped: WhenDropped,
}

/// An answer under way. It needs no runtime.
pub(crate) struct Answer {
    reply: oneshot::Receiver<Result<Vec<Value>>>,
    place: Arc<str>,
}

struct Task {
    connecting: Connecting,
    queue: UnboundedReceiver<Request>,
    was_heard: Arc<AtomicBool>,
}

/// A connection, and what comes from it.
struct Line {
    connection: MultiplexedConnection,
    pushes: UnboundedReceiver<PushInfo>,
    tenure: Tenure,
    pulse: Arc<Pulse>,
    /// Rung when it is not worth waiting for any more.
    is_broken: Arc<Notify>,
    /// Whoever waits for an answer on it hears by this that it is given up.
    end: watch::Sender<()>,
}

/// What makes connections.
#[derive(Clone)]
struct Connecting {
    dial: Arc<dyn Dial>,
    place: Arc<str>,
    reach: Reach,
}

/// Why a connection is not used any more.
enum Ended {
    /// Nobody can ask any more.
    Unused,
    /// It is broken.
    Broken,
    /// Its server answers on this one.
    Outlived(Line),
}

impl Patience {
    pub(crate) fn of(options: &Options) -> Self {
        let renewal = options.command_deadline.min(options.ttl / 3);
        Self {
            connect: options.connect_deadline,
            answer: options.command_deadline,
            doubt: DOUBT.min(options.command_deadline / 4),
            renewal,
            first_pause: options.first_pause,
            longest_pause: options.longest_pause,
        }
        // Turns are heard on it, and leaves go by it, which are in everyone's way.
        .pausing_at_most(options.ttl / 9)
    }

    fn pausing_at_most(self, pause: Duration) -> Self {
        let longest_pause = self.longest_pause.min(pause.max(PAUSE));
        Self { first_pause: self.first_pause.min(longest_pause), longest_pause, ..self }
    }

    /// That of a link for renewals, which is there again before a lifetime has ended, however long others pause.
    fn for_renewals(self) -> Self {
        let doubt = DOUBT.min(self.renewal / 4);
        Self { answer: self.renewal, doubt, ..self.pausing_at_most(self.renewal / 3) }
    }

    /// That of a link for what may take so much longer.
    pub(crate) fn longer(self, by: Duration) -> Self {
        Self { answer: self.answer + by, doubt: self.doubt + by, ..self }
    }
}

impl Reach {
    /// That of a link for renewals.
    pub(crate) fn for_renewals(&self) -> Self {
        Self { patience: self.patience.for_renewals(), ..self.clone() }
    }
}

impl Link {
    /// Connects, and keeps connected from then on.
    pub(crate) async fn connect(dial: Arc<dyn Dial>, reach: Reach) -> Result<Self> {
        let start = Start::new(dial, reach);
        let line = start.task.connecting.connect().await?;
        Ok(start.spawn(Some(line)))
    }

    /// Connects when something is asked for the first time.
    pub(crate) fn lazy(dial: Arc<dyn Dial>, reach: Reach) -> Self {
        Start::new(dial, reach).spawn(None)
    }

    /// Where it leads, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Asks one thing, which lies in the queue when this returns. An error of the server's is an answer.
    pub(crate) fn ask(
        &self,
        command: Cmd,
        when_dropped: WhenDropped,
    ) -> impl Future<Output = Result<Value>> + Send + use<> {
        let reply = self.send(vec![command], when_dropped);
        async move { Ok(reply.await?.pop().unwrap_or_default()) }
    }

    /// Asks several things at once, next to each other.
    pub(crate) async fn ask_all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.send(commands, WhenDropped::Forget).await
    }

    /// Sees to it that a connection on which nothing was heard since the last time is found out if it is dead.
    pub(crate) fn beat(&self) {
        if !self.was_heard.swap(false, Ordering::Relaxed) {
            drop(self.ask(redis::cmd("PING"), WhenDropped::Send));
        }
    }

    fn send(&self, commands: Vec<Cmd>, when_dropped: WhenDropped) -> Answer {
        let (sender, reply) = oneshot::channel();
        // Without a task the sender is dropped here, and whoever waits hears that.
        let _ = self.queue.send(Request { commands, reply: sender, when_dropped });
        Answer { reply, place: self.place.clone() }
    }
}

impl Future for Answer {
    type Output = Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = std::task::ready!(Pin::new(&mut self.reply).poll(cx));
        Poll::Ready(reply.unwrap_or_else(|_| Err(silent(&self.place))))
    }
}

impl Request {
    /// Whether anybody cares that it is sent.
    fn is_wanted(&self) -> bool {
        self.when_dropped == WhenDropped::Send || !self.reply.is_closed()
    }

    fn bytes(&self) -> usize {
        self.commands.iter().map(bytes_of).sum()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A task that does not run yet.
struct Start {
    task: Task,
    queue: UnboundedSender<Request>,
}

impl Start {
    fn new(dial: Arc<dyn Dial>, reach: Reach) -> Self {
        let (sender, queue) = unbounded_channel();
        let (place, was_heard) = (dial.place().into(), Arc::new(AtomicBool::new(true)));
        let task = Task { connecting: Connecting { dial, place, reach }, queue, was_heard };
        Self { task, queue: sender }
    }

    fn spawn(self, line: Option<Line>) -> Link {
        let (place, was_heard) = (self.task.connecting.place.clone(), self.task.was_heard.clone());
        let task = self.task.connecting.reach.runtime.clone().spawn(self.task.run(line)).abort_handle();
        Link { queue: self.queue, place, was_heard, task }
    }
}

impl Task {
    /// Ends when nobody can ask any more.
    async fn run(mut self, line: Option<Line>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut line = match line {
            Some(line) => line,
            None => {
                // Nobody has asked yet.
                if self.queue.recv_many(&mut batch, BATCH).await == 0 {
                    return;
                }
                let Some(line) = self.reconnect(&mut batch).await else { return };
                line
            }
        };
        loop {
            line = match self.serve(line, &mut batch).await {
                Ended::Unused => return,
                Ended::Outlived(next) => next,
                Ended::Broken => match self.reconnect(&mut batch).await {
                    Some(next) => next,
                    None => return,
                },
            };
            if self.connecting.reach.channel.is_some() {
                self.connecting.reach.news.missed();
            }
        }
    }

    /// Sends what is asked and tells what is pushed, until the connection is given up.
    async fn serve(&mut self, mut line: Line, batch: &mut Vec<Request>) -> Ended {
        let outlived = self.connecting.outlived(&line);
        tokio::pin!(outlived);
        loop {
            self.send(&line, std::mem::take(batch)).await;
            tokio::select! {
                biased;
                () = line.is_broken.notified() => return Ended::Broken,
                () = line.tenure.ends() => return Ended::Broken,
                push = line.pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => {
                        line.pulse.hear();
                        self.connecting.reach.news.pushed(&push);
                    }
                    _ => return Ended::Broken,
                },
                next = &mut outlived => return next.map_or(Ended::Broken, Ended::Outlived),
                count = self.queue.recv_many(batch, BATCH) => if count == 0 {
                    return Ended::Unused;
                },
            }
        }
    }

    /// Sends what has come, and leaves the wait for the answers to tasks of their own.
    async fn send(&self, line: &Line, mut batch: Vec<Request>) {
        batch.retain(Request::is_wanted);
        for some in in_batches(batch, Request::bytes) {
            self.send_batch(line, some).await;
        }
    }

    async fn send_batch(&self, line: &Line, batch: Vec<Request>) {
        let mut pipeline = redis::pipe();
        let mut askers = Vec::with_capacity(batch.len());
        for request in batch {
            askers.push((request.commands.len(), request.reply));
            for command in request.commands {
                pipeline.add_command(command);
            }
        }
        let sending = Sending {
            connection: line.connection.clone(),
            pipeline,
            askers,
            pulse: line.pulse.clone(),
            is_broken: line.is_broken.clone(),
            end: line.end.subscribe(),
            place: self.connecting.place.clone(),
            news: self.connecting.reach.news.clone(),
            was_heard: self.was_heard.clone(),
        };
        begin(sending.answer(self.connecting.reach.patience.answer)).await;
    }

    /// Connects anew, for as long as it takes. Meanwhile whoever asks is told why it fails, and has it tried again if
    /// the last try is not just over. `None` when nobody can ask any more.
    async fn reconnect(&mut self, batch: &mut Vec<Request>) -> Option<Line> {
        let patience = self.connecting.reach.patience;
        let mut pause = patience.first_pause;
        loop {
            let trouble = match self.connecting.connect().await {
                Ok(line) => return Some(line),
                Err(trouble) => trouble,
            };
            let place = &*self.connecting.place;
            unharmed(|| tracing::debug!(place, error = %trouble, "cannot connect, and tries again soon"));
            let soonest = Instant::now() + patience.first_pause;
            let rest = tokio::time::sleep(pause);
            tokio::pin!(rest);
            loop {
                for request in batch.drain(..) {
                    let _ = request.reply.send(Err(trouble.clone())); // unless nobody waits any more
                }
                tokio::select! {
                    () = &mut rest => break,
                    count = self.queue.recv_many(batch, BATCH) => match count {
                        0 => return None,
                        _ if Instant::now() >= soonest => break, // who asks hears of the next try, not of the last
                        _ => {}
                    },
                }
            }
            pause = (pause * 2).min(patience.longest_pause);
        }
    }
}

impl Connecting {
    async fn connect(&self) -> Result<Line> {
        let connecting = self.dial();
        match tokio::time::timeout(self.reach.patience.connect, connecting).await {
            Ok(connected) => connected.map_err(|error| trouble::from(error, &self.place)),
            Err(_) => Err(silent(&self.place)),
        }
    }

    async fn dial(&self) -> RedisResult<Line> {
        let mut dialed = self.dial.dial(self.reach.patience.connect).await?;
        if let Some(channel) = &self.reach.channel {
            dialed.connection.subscribe(channel).await?;
        }
        Ok(Line {
            connection: dialed.connection,
            pushes: dialed.pushes,
            tenure: dialed.tenure,
            pulse: Arc::default(),
            is_broken: Arc::default(),
            end: watch::Sender::new(()),
        })
    }

    /// Waits until this connection is outlived by another, which it gives; or until nobody serves there any more.
    fn outlived(&self, line: &Line) -> impl Future<Output = Option<Line>> + Send + use<> {
        let (connecting, old) = (self.clone(), line.connection.clone());
        let here = move || script::is_answered(old.clone());
        let elsewhere = move || {
            let connecting = connecting.clone();
            async move {
                let dialing = async {
                    let line = connecting.dial().await?;
                    script::is_served(line.connection.clone()).await?;
                    Ok(line)
                };
                dial::elsewhere(connecting.reach.patience.connect, dialing).await
            }
        };
        pulse::outlived(line.pulse.clone(), self.reach.patience.doubt, here, elsewhere)
    }
}

/// A batch under way.
struct Sending {
    connection: MultiplexedConnection,
    pipeline: Pipeline,
    /// How many answers each of them waits for.
    askers: Vec<(usize, oneshot::Sender<Result<Vec<Value>>>)>,
    pulse: Arc<Pulse>,
    is_broken: Arc<Notify>,
    end: watch::Receiver<()>,
    place: Arc<str>,
    news: Arc<News>,
    was_heard: Arc<AtomicBool>,
}

impl Sending {
    async fn answer(mut self, within: Duration) {
        let (pulse, mut end) = (self.pulse.clone(), self.end.clone());
        let (under_way, heard) = (pulse.ask(), pulse.heard());
        let outcome = tokio::select! {
            biased;
            outcome = tokio::time::timeout(within, self.values()) => outcome,
            _ = end.changed() => return self.fail(&silent(&self.place)),
        };
        drop(under_way);
        match outcome {
            Ok(Ok(values)) => {
                self.was_heard.store(true, Ordering::Relaxed);
                self.share(values);
            }
            Ok(Err(error)) => {
                self.fail(&trouble::from(error, &self.place));
            }
            Err(_) => {
                if pulse.heard() == heard {
                    // Whatever comes behind it would wait as long: better to connect anew.
                    self.is_broken.notify_one();
                }
                self.fail(&silent(&self.place));
            }
        }
    }

    /// The answers, in the order of the commands. What a server does not know by its hash is sent as a text, once.
    async fn values(&mut self) -> RedisResult<Vec<Value>> {
        let count = self.pipeline.len();
        let mut values = self.connection.send_packed_commands(&self.pipeline, 0, count).await?;
        self.pulse.hear();
        let unknown: Vec<usize> =
            (0..count.min(values.len())).filter(|i| script::is_unknown(&values[*i])).collect();
        if unknown.is_empty() {
            return Ok(values);
        }
        let mut by_text = redis::pipe();
        let commands: Vec<&Cmd> = self.pipeline.cmd_iter().collect();
        script::by_text_once(unknown.iter().map(|i| commands[*i])).for_each(|command| {
            by_text.add_command(command);
        });
        let answers = self.connection.send_packed_commands(&by_text, 0, unknown.len()).await?;
        self.pulse.hear();
        for (i, answer) in unknown.into_iter().zip(answers) {
            values[i] = answer;
        }
        Ok(values)
    }

    /// Gives everyone the answers to what it asked. Grants are told first, whether anyone reads the answer or not.
    fn share(self, values: Vec<Value>) {
        if values.iter().any(trouble::is_read_only) {
            self.is_broken.notify_one(); // it was master once: whoever is now has to be found
        }
        let mut values = values.into_iter();
        for (count, asker) in self.askers {
            let own: Vec<Value> = values.by_ref().take(count).collect();
            own.iter().for_each(|value| self.news.replied(value));
            let _ = asker.send(Ok(own)); // unless nobody waits any more
        }
    }

    fn fail(&mut self, error: &Error) {
        for (_, asker) in self.askers.drain(..) {
            let _ = asker.send(Err(error.clone())); // unless nobody waits any more
        }
    }
}

/// What is to be sent, in its order and in batches of not too many bytes.
pub(crate) fn in_batches<T>(all: Vec<T>, bytes: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    if all.iter().map(&bytes).sum::<usize>() <= BYTES {
        return if all.is_empty() { Vec::new() } else { vec![all] };
    }
    let (mut batches, mut room) = (Vec::new(), 0);
    for one in all {
        let bytes = bytes(&one);
        if bytes > room || batches.is_empty() {
            batches.push(Vec::new());
            room = BYTES;
        }
        room = room.saturating_sub(bytes);
        if let Some(last) = batches.last_mut() {
            last.push(one);
        }
    }
    batches
}

/// How long a command is, about.
pub(crate) fn bytes_of(command: &Cmd) -> usize {
    const AROUND: usize = 8; // each word: its length, and line feeds
    let length = |word: Arg<&[u8]>| AROUND + if let Arg::Simple(word) = word { word.len() } else { 0 };
    command.args_iter().map(length).sum()
}

/// Leaves the wait for answers to a task of its own.
pub(crate) async fn begin(answering: impl Future<Output = ()> + Send + 'static) {
    let mut answering = Box::pin(answering);
    // Polled once here, it has its place in the order; the task that polls it on may begin whenever it likes.
    if poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(answering);
    }
}

pub(crate) fn silent(place: &str) -> Error {
    Error::new(ErrorKind::Timeout, format!("{place} did not answer in time"))
}
