//! The end of a session: everything is given back, the store confirms it, and the session is closed.

use std::sync::Arc;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::task::JoinError;

use super::close_result::{close_result, end, end_surely};
use super::{Done, Keeper, Renewed, Request, ttl_of};
use crate::Result;
use crate::backend::Moment;
use crate::limit::Limit;
use crate::registry::{Entry, Loss};

impl Keeper {
    /// Gives everything back, waits for the store to confirm it, and ends the session.
    pub(super) async fn close(
        mut self,
        by: Limit,
        done: Option<oneshot::Sender<Result<()>>>,
        mut requests: UnboundedReceiver<Request>,
    ) {
        let clock = self.clock.clone();
        let leaves_by = by.halved(&clock); // the rest is for the end of the session
        self.registry.begin_closing();
        let (lost, mut leaving) = self.registry.lose_all(Loss::Closed);
        for entry in lost {
            self.see_through(entry, None);
        }
        for entry in &leaving {
            self.leaves(entry);
        }
        let have_left = leaves_by.of(&clock, self.all_leave(&mut leaving, &mut requests)).await;
        if have_left.is_none() {
            self.registry.ends_before_all_have_left();
        }
        let session = self.session.clone();
        let ended = match leaving.is_empty() && self.leaving.is_empty() {
            true => by.of(&clock, end(&*session)).await,
            false => {
                let surely_over = self.surely_over_at(&leaving);
                end_surely(&*session, &clock, &self.options, by, surely_over).await
            }
        };
        while let Some(done) = self.tasks.try_join_next() {
            self.note_leave(done); // confirmed while the session was being ended
        }
        if matches!(ended, Some(Ok(()))) {
            by.of(&clock, session.clean_up()).await;
        }
        for entry in leaving.into_iter().filter(|entry| self.registry.knows(entry.claim.id)) {
            self.leaving.insert(entry.claim.id, entry);
        }
        self.registry.is_surely_over_at(self.surely_over_at(&[]));
        if let Some(done) = done {
            // The caller may have stopped listening.
            let _ = done.send(self.result_of_close(ended));
        }
    }

    /// Waits until every claim has left. The leaves for which users wait are taken over; a user that is just polling one
    /// sees to it.
    async fn all_leave(
        &mut self,
        with_users: &mut Vec<Arc<Entry>>,
        requests: &mut UnboundedReceiver<Request>,
    ) {
        loop {
            let registry = self.registry.clone();
            let removal = registry.next_removal(); // listens from now on
            with_users.retain(|entry| {
                if let Some(reply) = entry.leave.take_over() {
                    self.see_through(entry.clone(), Some(reply));
                }
                registry.knows(entry.claim.id) && !self.leaving.contains_key(&entry.claim.id)
            });
            self.give_back_granted(); // this client stops to renew, but others wait behind them
            // A task that has panicked leaves its claim behind.
            if with_users.is_empty() && (self.leaving.is_empty() || self.tasks.is_empty()) {
                return;
            }
            tokio::select! {
                Some(request) = requests.recv() => if let Request::SeeThrough { entry, reply } = request {
                    self.see_through(entry, reply);
                },
                Some(done) = self.tasks.join_next() => self.note_leave(done),
                () = removal => {}
                () = registry.wake_ups.nudged() => {}
            }
        }
    }

    /// Takes in the outcome of a task, as far as it matters now.
    fn note_leave(&mut self, done: Result<Done, JoinError>) {
        match done {
            Ok(Done::Left(id)) => self.left(id),
            Ok(Done::Renewed(Renewed { answer: Ok(renewal), .. })) => self.give_back(renewal.strays),
            _ => {}
        }
    }

    fn result_of_close(&self, ended: Option<Result<()>>) -> Result<()> {
        let kept = |entry: &&Arc<Entry>| self.is_perhaps_kept(entry);
        let unconfirmed: Vec<_> = self.leaving.values().filter(kept).map(|entry| &entry.claim.name).collect();
        close_result(ended, &unconfirmed, self.clock.now() > self.lease_ends_at())
    }

    /// When the session's lease has ended in the store. Each of its claims has left or has a lease of its own.
    fn lease_ends_at(&self) -> Moment {
        self.registry.last_end().max(self.opened_at + ttl_of(&*self.session))
    }

    /// When nothing of the session is left in the store, whatever becomes of its end.
    fn surely_over_at(&self, with_users: &[Arc<Entry>]) -> Moment {
        let last = self.leaving.values().chain(with_users).map(|entry| self.kept_by(entry)).max();
        self.lease_ends_at().max(last.unwrap_or(Moment::START))
    }

    fn is_perhaps_kept(&self, entry: &Entry) -> bool {
        self.clock.now() <= self.kept_by(entry)
    }

    /// Until when the store may have a claim that is leaving. Renewals of neighbouring claims may keep it alive.
    fn kept_by(&self, entry: &Entry) -> Moment {
        entry.gone_by().max(self.registry.kept_until(self.session.shard(&entry.claim.name)))
    }
}
