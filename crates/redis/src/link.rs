//! A connection to one server that is made again whenever it breaks. Requests go out in their order, and none waits for
//! a batch to fill up.
//!
//! Requests wait in a queue until the link's task takes all of them and writes them at once, or in a few writes if
//! there are many. Several batches may be under way. The link gives a connection up when it ends, when a request gets
//! no reply in time and nothing else is heard either, and when it has fallen silent although the server answers on
//! another connection, which then replaces it. Every caller with a request under way on it gets an error: the outcome
//! is unknown. While the task cannot connect, callers soon get the reason. All of this runs on one runtime, usually the
//! keeper's.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, Pipeline, PushInfo, PushKind, RedisResult, Value};
use tidelock_core::backend::unharmed;
use tidelock_core::{Error, Options, Result};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;

use crate::dial::{self, Dial};
use crate::news::News;
use crate::pulse::{self, Pulse};
use crate::tenure::Tenure;
use crate::{script, timer, trouble};

/// The most requests in one batch.
const BATCH: usize = 256;
/// The most bytes in one batch, or a little more. A reply is noticed only when the whole batch is answered, so on a
/// slow network a connection with large batches would look silent.
const BYTES: usize = 16 * 1024;
/// How long a connection may be silent before it is compared with a new one. Less if the deadlines are shorter.
const DOUBT: Duration = Duration::from_millis(500);
/// The longest pause between connection attempts is at least this, whatever the deadlines: a server that is down must
/// not get a thousand attempts per second.
const PAUSE: Duration = Duration::from_millis(20);

/// A handle to the task; dropping it ends the connection.
#[derive(Debug)]
pub(crate) struct Link {
    queue: UnboundedSender<Request>,
    place: Arc<str>,
    /// How often the server has answered on this link's connections.
    answers: Arc<AtomicU64>,
    /// How often it had at the last beat.
    answers_at_beat: AtomicU64,
    task: AbortHandle,
}

/// The timeouts and pauses of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    pub(crate) answer: Duration,
    /// How long its connection may be silent before the link checks it.
    pub(crate) doubt: Duration,
    /// How long a renewal may take; a slower one could come too late.
    pub(crate) renewal: Duration,
    pub(crate) first_pause: Duration,
    pub(crate) longest_pause: Duration,
}

/// What all connections of a session have in common.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) news: Arc<News>,
    /// The channel to subscribe to for news, if any.
    pub(crate) channel: Option<String>,
    pub(crate) timeouts: Timeouts,
    pub(crate) runtime: Handle,
    /// Whether callers' runtimes get connections of their own.
    pub(crate) has_locals: bool,
    /// Whether the servers are a cluster's: its scripts have keys of one slot only.
    pub(crate) has_slots: bool,
}

/// What happens to a command whose reply is dropped before the command is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenDropped {
    /// It is not sent.
    Forget,
    /// It is sent anyway.
    Send,
}

/// Commands that are sent together, and the channel for their replies.
struct Request {
    commands: Vec<Cmd>,
    reply: oneshot::Sender<Result<Vec<Value>>>,
    when_dropped: WhenDropped,
}

/// A reply under way. Waiting for it needs no runtime.
pub(crate) struct Answer {
    reply: oneshot::Receiver<Result<Vec<Value>>>,
    place: Arc<str>,
}

struct Task {
    connecting: Connecting,
    queue: UnboundedReceiver<Request>,
    answers: Arc<AtomicU64>,
}

/// A connection, with its pushes and its state.
struct Connection {
    redis: MultiplexedConnection,
    pushes: UnboundedReceiver<PushInfo>,
    tenure: Tenure,
    pulse: Arc<Pulse>,
    /// Notified when the connection is broken.
    is_broken: Arc<Notify>,
    /// Tells the tasks that wait for replies that the connection is given up.
    end: watch::Sender<()>,
}

/// Makes the link's connections.
#[derive(Clone)]
struct Connecting {
    dial: Arc<dyn Dial>,
    place: Arc<str>,
    settings: Settings,
}

/// Why a connection is not used any more.
enum Ended {
    /// The link was dropped.
    Unused,
    /// It is broken.
    Broken,
    /// Its server answers on this new one.
    Outlived(Connection),
}

impl Timeouts {
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
        // Grants arrive on this link and leaves are sent on it, and a late leave delays everyone.
        .pausing_at_most(options.ttl / 9)
    }

    fn pausing_at_most(self, pause: Duration) -> Self {
        let longest_pause = self.longest_pause.min(pause.max(PAUSE));
        Self { first_pause: self.first_pause.min(longest_pause), longest_pause, ..self }
    }

    /// For a link for renewals. It connects again before a lifetime has ended, however long the configured pauses are.
    fn for_renewals(self) -> Self {
        let doubt = DOUBT.min(self.renewal / 4);
        Self { answer: self.renewal, doubt, ..self.pausing_at_most(self.renewal / 3) }
    }

    /// For a link for commands that may take longer by `by`.
    pub(crate) fn longer(self, by: Duration) -> Self {
        Self { answer: self.answer + by, doubt: self.doubt + by, ..self }
    }
}

impl Settings {
    /// For a link for renewals.
    pub(crate) fn for_renewals(&self) -> Self {
        Self { timeouts: self.timeouts.for_renewals(), ..self.clone() }
    }
}

impl Link {
    /// Connects, and keeps connected from then on.
    pub(crate) async fn connect(dial: Arc<dyn Dial>, settings: Settings) -> Result<Self> {
        let start = Start::new(dial, settings);
        let connection = start.task.connecting.connect().await?;
        Ok(start.spawn(Some(connection)))
    }

    /// Connects when the first command is sent.
    pub(crate) fn lazy(dial: Arc<dyn Dial>, settings: Settings) -> Self {
        Start::new(dial, settings).spawn(None)
    }

    /// The server, for messages.
    pub(crate) fn place(&self) -> &str {
        &self.place
    }

    /// Sends one command. It is in the queue when this returns. An error reply of the server is an `Ok` value.
    pub(crate) fn ask(
        &self,
        command: Cmd,
        when_dropped: WhenDropped,
    ) -> impl Future<Output = Result<Value>> + Send + use<> {
        let reply = self.send(vec![command], when_dropped);
        async move { Ok(reply.await?.pop().unwrap_or_default()) }
    }

    /// Sends several commands at once, without others in between.
    pub(crate) async fn ask_all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        self.send(commands, WhenDropped::Forget).await
    }

    /// Sends a PING if nothing was heard since the last beat, so that a dead connection is detected. A link that nobody
    /// has used does not connect for it.
    pub(crate) fn beat(&self) {
        let answers = self.answers.load(Ordering::Relaxed);
        let is_silent = self.answers_at_beat.swap(answers, Ordering::Relaxed) == answers;
        if is_silent && answers > 0 && !seeded!("an_idle_connection_is_trusted") {
            drop(self.ask(redis::cmd("PING"), WhenDropped::Send));
        }
    }

    fn send(&self, commands: Vec<Cmd>, when_dropped: WhenDropped) -> Answer {
        let (sender, reply) = oneshot::channel();
        // If the task has ended, the sender is dropped here, and the caller gets an error.
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
    /// Whether it still has to be sent.
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
    fn new(dial: Arc<dyn Dial>, settings: Settings) -> Self {
        let (sender, queue) = unbounded_channel();
        let place = dial.place().into();
        let task = Task { connecting: Connecting { dial, place, settings }, queue, answers: Arc::default() };
        Self { task, queue: sender }
    }

    fn spawn(self, connection: Option<Connection>) -> Link {
        let (place, answers) = (self.task.connecting.place.clone(), self.task.answers.clone());
        if connection.is_some() {
            answers.store(1, Ordering::Relaxed); // to connect is to ask
        }
        let task =
            self.task.connecting.settings.runtime.clone().spawn(self.task.run(connection)).abort_handle();
        Link { queue: self.queue, place, answers, answers_at_beat: AtomicU64::new(0), task }
    }
}

impl Task {
    /// Ends when the link is dropped.
    async fn run(mut self, connection: Option<Connection>) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut connection = match connection {
            Some(connection) => connection,
            None => {
                // A lazy link: wait for the first request.
                if self.queue.recv_many(&mut batch, BATCH).await == 0 {
                    return;
                }
                let Some(connection) = self.reconnect(&mut batch).await else { return };
                connection
            }
        };
        loop {
            connection = match self.serve(connection, &mut batch).await {
                Ended::Unused => return,
                Ended::Outlived(next) => next,
                Ended::Broken => match self.reconnect(&mut batch).await {
                    Some(next) => next,
                    None => return,
                },
            };
            if self.connecting.settings.channel.is_some() {
                self.connecting.settings.news.missed();
            }
        }
    }

    /// Sends requests and passes pushes on, until the connection is given up.
    async fn serve(&mut self, mut connection: Connection, batch: &mut Vec<Request>) -> Ended {
        let outlived = self.connecting.outlived(&connection);
        tokio::pin!(outlived);
        loop {
            self.send(&connection, std::mem::take(batch)).await;
            tokio::select! {
                biased;
                () = connection.is_broken.notified() => return Ended::Broken,
                () = connection.tenure.ends() => return Ended::Broken,
                push = connection.pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => {
                        connection.pulse.hear();
                        self.connecting.settings.news.pushed(&push);
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

    /// Sends the batch. Tasks of their own wait for the replies.
    async fn send(&self, connection: &Connection, mut batch: Vec<Request>) {
        batch.retain(Request::is_wanted);
        for some in in_batches(batch, Request::bytes) {
            self.send_batch(connection, some).await;
        }
    }

    async fn send_batch(&self, connection: &Connection, batch: Vec<Request>) {
        let mut pipeline = redis::pipe();
        let mut askers = Vec::with_capacity(batch.len());
        for request in batch {
            askers.push((request.commands.len(), request.reply));
            for command in request.commands {
                pipeline.add_command(command);
            }
        }
        let sending = Sending {
            connection: connection.redis.clone(),
            pipeline,
            askers,
            pulse: connection.pulse.clone(),
            is_broken: connection.is_broken.clone(),
            end: connection.end.subscribe(),
            place: self.connecting.place.clone(),
            news: self.connecting.settings.news.clone(),
            answers: self.answers.clone(),
        };
        begin(sending.answer(self.connecting.settings.timeouts.answer)).await;
    }

    /// Tries to connect until it succeeds. Meanwhile each request gets the reason of the failure, and starts another
    /// attempt if the last one is not just over. `None` when the link was dropped.
    async fn reconnect(&mut self, batch: &mut Vec<Request>) -> Option<Connection> {
        let timeouts = self.connecting.settings.timeouts;
        let mut pause = timeouts.first_pause;
        loop {
            let trouble = match self.connecting.connect().await {
                Ok(connection) => return Some(connection),
                Err(trouble) => trouble,
            };
            let place = &*self.connecting.place;
            unharmed(|| tracing::debug!(place, error = %trouble, "cannot connect; will try again soon"));
            let soonest = timer::now() + timeouts.first_pause;
            let rest = timer::sleep(pause);
            tokio::pin!(rest);
            loop {
                for request in batch.drain(..) {
                    let _ = request.reply.send(Err(trouble.clone())); // unless nobody waits any more
                }
                tokio::select! {
                    () = &mut rest => break,
                    count = self.queue.recv_many(batch, BATCH) => match count {
                        0 => return None,
                        _ if timer::now() >= soonest => break, // these requests get the outcome of the next attempt
                        _ => {}
                    },
                }
            }
            pause = if seeded!("connections_are_tried_in_a_storm") {
                Duration::from_micros(1)
            } else {
                (pause * 2).min(timeouts.longest_pause)
            };
        }
    }
}

impl Connecting {
    async fn connect(&self) -> Result<Connection> {
        let connecting = self.dial();
        match timer::timeout(dial::patience(self.settings.timeouts.connect), connecting).await {
            Ok(connected) => connected.map_err(|error| trouble::from(error, &self.place)),
            Err(_) => Err(silent(&self.place)),
        }
    }

    async fn dial(&self) -> RedisResult<Connection> {
        let mut dialed = self.dial.dial(self.settings.timeouts.connect).await?;
        if let Some(channel) = &self.settings.channel {
            dialed.connection.subscribe(channel).await?;
        }
        Ok(Connection {
            redis: dialed.connection,
            pushes: dialed.pushes,
            tenure: dialed.tenure,
            pulse: Arc::default(),
            is_broken: Arc::default(),
            end: watch::Sender::new(()),
        })
    }

    /// Waits until the server answers on a new connection and not on this one, and returns the new one. `None` if the
    /// server's port is closed.
    fn outlived(&self, connection: &Connection) -> impl Future<Output = Option<Connection>> + Send + use<> {
        let (connecting, old) = (self.clone(), connection.redis.clone());
        let here = move || script::is_answered(old.clone());
        let elsewhere = move || {
            let connecting = connecting.clone();
            async move {
                let dialing = async {
                    let connection = connecting.dial().await?;
                    script::is_served(connection.redis.clone()).await?;
                    Ok(connection)
                };
                dial::elsewhere(connecting.settings.timeouts.connect, dialing).await
            }
        };
        pulse::outlived(connection.pulse.clone(), self.settings.timeouts.doubt, here, elsewhere)
    }
}

/// A batch under way.
struct Sending {
    connection: MultiplexedConnection,
    pipeline: Pipeline,
    /// The number of replies that each request waits for.
    askers: Vec<(usize, oneshot::Sender<Result<Vec<Value>>>)>,
    pulse: Arc<Pulse>,
    is_broken: Arc<Notify>,
    end: watch::Receiver<()>,
    place: Arc<str>,
    news: Arc<News>,
    answers: Arc<AtomicU64>,
}

impl Sending {
    async fn answer(mut self, within: Duration) {
        let (pulse, mut end) = (self.pulse.clone(), self.end.clone());
        let (under_way, heard) = (pulse.ask(), pulse.heard());
        let outcome = tokio::select! {
            biased;
            outcome = timer::timeout(within, self.values()) => outcome,
            _ = end.changed(), if !seeded!("a_dead_connections_batches_wait") => {
                return self.fail(&silent(&self.place));
            }
        };
        drop(under_way);
        match outcome {
            Ok(Ok(values)) => {
                self.answers.fetch_add(1, Ordering::Relaxed);
                self.share(values);
            }
            Ok(Err(error)) => {
                self.fail(&trouble::from(error, &self.place));
            }
            Err(_) => {
                if pulse.heard() == heard {
                    // Later requests would wait as long: connect again.
                    self.is_broken.notify_one();
                }
                self.fail(&silent(&self.place));
            }
        }
    }

    /// The replies, in the order of the commands. Scripts that the server does not know are sent again as text.
    async fn values(&mut self) -> RedisResult<Vec<Value>> {
        let count = self.pipeline.len();
        let mut values = self.connection.send_packed_commands(&self.pipeline, 0, count).await?;
        self.pulse.hear();
        let mut unknown = unknown_of(0..count, &values);
        // Between a text and the next call of its hash the server may forget the script anew. It runs each text, so every
        // time fewer are left.
        let mut left = usize::MAX;
        while !unknown.is_empty() && unknown.len() < left {
            left = unknown.len();
            self.send_as_texts(&unknown, &mut values).await?;
            unknown = unknown_of(unknown.into_iter(), &values);
        }
        Ok(values)
    }

    /// Sends these commands again, and puts their replies in.
    async fn send_as_texts(&mut self, unknown: &[usize], values: &mut [Value]) -> RedisResult<()> {
        let commands: Vec<&Cmd> = self.pipeline.cmd_iter().collect();
        let mut by_text = redis::pipe();
        script::by_text_once(unknown.iter().map(|i| commands[*i])).for_each(|command| {
            by_text.add_command(command);
        });
        let answers = self.connection.send_packed_commands(&by_text, 0, unknown.len()).await?;
        self.pulse.hear();
        for (i, answer) in unknown.iter().zip(answers) {
            values[*i] = answer;
        }
        Ok(())
    }

    /// Gives each request its replies. Grants in them are passed on first, even if nobody reads the reply.
    fn share(self, values: Vec<Value>) {
        if values.iter().any(trouble::is_read_only) {
            self.is_broken.notify_one(); // it was master before: the new master has to be found
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

/// Splits requests into batches of not too many bytes, and keeps their order.
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

/// Which of these commands called a script that the server does not know.
fn unknown_of(commands: impl Iterator<Item = usize>, values: &[Value]) -> Vec<usize> {
    commands.filter(|i| values.get(*i).is_some_and(script::is_unknown)).collect()
}

/// The approximate size of a command.
pub(crate) fn bytes_of(command: &Cmd) -> usize {
    const AROUND: usize = 8; // each word: its length, and line feeds
    let length = |word: Arg<&[u8]>| AROUND + if let Arg::Simple(word) = word { word.len() } else { 0 };
    command.args_iter().map(length).sum()
}

/// Starts to wait for replies in a task of its own.
pub(crate) async fn begin(answering: impl Future<Output = ()> + Send + 'static) {
    let mut answering = Box::pin(answering);
    // The first poll here gives the request its place in the order, so the task may start at any later time.
    if poll_fn(|cx| Poll::Ready(answering.as_mut().poll(cx))).await.is_pending() {
        tokio::spawn(answering);
    }
}

pub(crate) fn silent(place: &str) -> Error {
    Error::no_answer(place)
}
