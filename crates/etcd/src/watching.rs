//! One watch stream for a client, with one watch for each line in which it waits.
//!
//! A watch starts at 0, which means now: only so does the server report at once. From a known revision it reports through a
//! loop that runs every 100 ms. If something may have happened between the list of the line and the watch, the line is
//! read once more. After a break each watch goes on behind the last revision that it has shown, so nothing is missed; if
//! that revision was compacted, it starts at 0 again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{
    Error as Said, GetOptions, Txn, TxnOp, TxnOpResponse, TxnResponse, WatchFilterType, WatchOptions,
    WatchResponse, WatchStream,
};
use tidelock_core::backend::{Claim, Leave, unharmed};
use tidelock_core::{ClaimId, Name};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;

use crate::asked::Asked;
use crate::gathering::revision;
use crate::line_view::LineView;
use crate::link::{Failed, LARGEST};
use crate::open_session::OpenSession;
use crate::own_claims::{Aim, Command, Wanted};
use crate::trouble::Blame;

/// A task. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct AbortOnDrop(pub(crate) AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The pauses between two attempts to open the stream.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Watches as long as the session lives.
pub(crate) async fn watch(session: Arc<OpenSession>, mut commands: UnboundedReceiver<Command>) {
    let mut pause = FIRST_PAUSE;
    while let Some(command) = commands.recv().await {
        if matches!(command, Command::Stop(_)) {
            continue;
        }
        while session.own_claims.is_any_wanted() {
            if session.stream(&mut commands).await {
                pause = FIRST_PAUSE;
            }
            // A stream is opened with the login that there is. Only a plain request finds out that it is too old.
            session.link.log_in_again().await;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

impl OpenSession {
    /// Watches on one stream until it breaks, or nothing is watched any more. Returns whether it ever reported anything.
    async fn stream(self: &Arc<Self>, commands: &mut UnboundedReceiver<Command>) -> bool {
        let mut starting: VecDeque<Wanted> = self.own_claims.all_wanted().into();
        let Some(first) = starting.pop_front() else { return true };
        let opened = self.link.ask_on(|client| {
            let (key, options) = self.options(&first);
            // After a break the server may report long lines in one piece.
            let mut watcher = client.watch_client().max_decoding_message_size(LARGEST);
            async move { watcher.watch(key, Some(options)).await }
        });
        let (connection, opened) = opened.await;
        let stream: WatchStream = match opened {
            Ok(stream) => stream,
            Err(failed) => {
                let error = failed.error;
                unharmed(|| tracing::debug!(%error, "cannot watch; core looks at the lines meanwhile"));
                return false;
            }
        };
        let (mut sender, mut answers) = stream.split();
        let (mut stopping, mut is_of_use) = (VecDeque::new(), false);
        let mut asked = Asked::default();
        asked.asks(first.watch, self.options(&first).0, first.from);
        loop {
            tokio::select! {
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => {
                        is_of_use = true;
                        match self.heard(&answer, &mut asked) {
                            Heard::Well => {}
                            Heard::Again(wanted) => starting.push_back(wanted),
                            Heard::Unneeded(watch) => stopping.push_back(watch),
                            Heard::Badly => return false,
                        }
                    }
                    Ok(None) | Err(_) => {
                        self.link.doubt(&connection);
                        return is_of_use;
                    }
                },
                command = commands.recv() => match command {
                    Some(Command::Start(wanted)) => starting.push_back(wanted),
                    Some(Command::Stop(watch)) => stopping.push_back(watch),
                    None => return true,
                },
                sent = send_next(&mut sender, &starting, &asked, &stopping, |wanted| self.options(wanted)), if !starting.is_empty() || !stopping.is_empty() => {
                    if sent.is_err() {
                        return is_of_use;
                    }
                    match starting.pop_front() {
                        Some(wanted) if asked.has(wanted.watch) => {}
                        Some(wanted) => asked.asks(wanted.watch, self.options(&wanted).0, wanted.from),
                        None => drop(stopping.pop_front()), // the server confirms it
                    }
                }
                () = connection.given_up() => return true,
            }
        }
    }

    fn options(&self, wanted: &Wanted) -> (String, WatchOptions) {
        let options = WatchOptions::new().with_prefix().with_watch_id(wanted.watch);
        let options = options.with_start_revision(wanted.from);
        match wanted.aim {
            Aim::Line => (self.keys.line(&wanted.name), options),
            // What is put there is another claim's.
            Aim::Claim(id) => {
                (self.keys.claim(&wanted.name, id), options.with_filters([WatchFilterType::NoPut]))
            }
        }
    }

    fn heard(self: &Arc<Self>, answer: &WatchResponse, asked: &mut Asked) -> Heard {
        if let Err(said) = asked.admits(answer) {
            let error = self.link.failed(said).error;
            unharmed(
                || tracing::warn!(%error, "an answer to no watch of ours; core looks at the lines meanwhile"),
            );
            return Heard::Badly;
        }
        if self.link.shows(answer.header(), 0).is_err() {
            return Heard::Badly; // the session is over
        }
        let watch = answer.watch_id();
        if answer.canceled() {
            asked.ends(watch);
            if !self.own_claims.is_needed(watch) && !answer.created() {
                return Heard::Well;
            }
            if answer.compact_revision() > 0 {
                return self.own_claims.begins_anew(watch).map_or(Heard::Well, Heard::Again);
            }
            let why = answer.cancel_reason();
            unharmed(|| {
                tracing::debug!(why, "the server refused a watch; core looks at the lines meanwhile");
            });
            return Heard::Badly;
        }
        if answer.created() {
            let now = answer.header().map_or(0, etcd_client::ResponseHeader::revision);
            let since = match asked.is_set(watch) {
                Some(from) if from > 0 => from - 1,
                _ => now,
            };
            let Some((name, news)) = self.own_claims.is_set(watch, since) else {
                return Heard::Unneeded(watch);
            };
            self.tell(&name, news);
            return Heard::Well;
        }
        if let Some((name, news)) = self.own_claims.happened(watch, answer.events()) {
            self.tell(&name, news);
            self.stirred.notify_waiters();
        }
        Heard::Well
    }

    /// Reads a line in which something may have happened unnoticed.
    pub(crate) async fn close_gap(self: Arc<Self>, name: Name) {
        match self.read_line(&name).await {
            Ok(view) => self.shows(&name, &view),
            Err(_) => {
                self.own_claims.saw_nothing(&name);
                self.signals.look(&name);
            }
        }
    }

    /// Looks where these claims stand, and how heavy they are, at this revision or later.
    pub(crate) async fn check(self: Arc<Self>, name: Name, claims: Vec<ClaimId>, since: i64) {
        // The member that has reported an event has mostly carried it out, too, so it need not ask the leader.
        let mut answer = self.look_up(&name, &claims, true).await;
        if answer.as_ref().is_ok_and(|answer| revision(answer) < since) {
            answer = self.look_up(&name, &claims, false).await;
        }
        let answer = match answer {
            Ok(answer) => answer,
            // Older versions refuse every transaction when their database is full. A read of the line is always answered.
            Err(failed) if failed.blame == Blame::Joins => return self.close_gap(name).await,
            Err(_) => {
                self.own_claims.saw_nothing(&name);
                return self.signals.look(&name);
            }
        };
        let (line, revision) = (self.keys.line(&name).len(), revision(&answer));
        let parts = answer.op_responses().into_iter().map(|part| match part {
            TxnOpResponse::Get(get) => LineView::of(get.kvs(), line, revision),
            _ => LineView::default(),
        });
        let found = claims.iter().zip(parts).map(|(id, view)| {
            let standing = view.place(*id).zip(view.find(*id));
            (*id, standing.map(|(order, standing)| (order, standing.weight)))
        });
        let news = self.own_claims.checked(&name, revision, &found.collect::<Vec<_>>());
        self.tell(&name, news);
    }

    /// Reads the keys of these claims. `is_local`: as the member that is asked has them now.
    async fn look_up(
        self: &Arc<Self>,
        name: &Name,
        claims: &[ClaimId],
        is_local: bool,
    ) -> std::result::Result<TxnResponse, Failed> {
        let get = |id: &ClaimId| {
            let options = GetOptions::new().with_prefix();
            let options = if is_local { options.with_serializable() } else { options };
            TxnOp::get(self.keys.claim(name, *id), Some(options))
        };
        let txn = Txn::new().and_then(claims.iter().map(get).collect::<Vec<_>>());
        if is_local { self.link.look(txn).await } else { self.link.transact(txn).await }
    }

    /// Takes in a view of a line, and watches the line if a claim of ours waits there.
    pub(crate) fn shows(self: &Arc<Self>, name: &Name, view: &LineView) {
        let news = self.own_claims.saw(name, view, self.keys.line(name).len());
        self.tell(name, news);
        self.stirred.notify_waiters();
    }

    /// Watches for a claim that waits.
    pub(crate) fn arm(self: &Arc<Self>, claim: &Claim, view: &LineView) {
        self.shows(&claim.name, view);
    }

    pub(crate) fn leave_in_the_background(self: Arc<Self>, name: Name, id: ClaimId) {
        let leaving = self.clone().leave(name.clone(), id, Leave::Done);
        self.runtime.spawn(async move {
            if let Err(error) = leaving.await {
                unharmed(
                    || tracing::debug!(lock.name = %name, %error, "a leave got no reply; a renewal that finds the claim repeats it"),
                );
            }
        });
    }
}

/// What to do after an answer.
enum Heard {
    Well,
    Again(Wanted),
    Unneeded(i64),
    Badly,
}

/// Sends the next request: a start, or if there is none, a stop.
async fn send_next(
    sender: &mut etcd_client::WatchRequestSender,
    starting: &VecDeque<Wanted>,
    asked: &Asked,
    stopping: &VecDeque<i64>,
    options: impl Fn(&Wanted) -> (String, WatchOptions),
) -> std::result::Result<(), Said> {
    match (starting.front(), stopping.front()) {
        (Some(wanted), _) if asked.has(wanted.watch) => Ok(()),
        (Some(wanted), _) => {
            let (key, options) = options(wanted);
            sender.watch(key, Some(options)).await
        }
        (None, Some(watch)) => sender.cancel(*watch).await,
        (None, None) => Ok(()),
    }
}
