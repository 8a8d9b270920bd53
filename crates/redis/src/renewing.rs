//! Renews all claims of one client on one server.
//!
//! First all names are renewed: a renewal costs the same with three claims on the name and with 30 000. Where the
//! server's count of our claims differs from ours, we then look for the claims. That is done in pieces, because one
//! script for a whole crowd would delay everyone else. When the time is over, the results so far count. The other
//! claims are unsure, and come first the next time.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::future::ready;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tidelock_core::backend::{Clock, Moment, Renewal, Reply, Sleep, unharmed};
use tidelock_core::{ClaimId, Error, ErrorKind, Name, Result};

use crate::calls::Calls;
use crate::fleet::Fleet;
use crate::link::WhenDropped;
use crate::pace::Pace;
use crate::reply;
use crate::server::Server;

/// How many names one pipeline renews: between pipelines, other clients' commands and other tasks get a turn.
const PIPELINE: usize = 256;
/// The most claims that one script looks for.
pub(crate) const LOOKS: usize = 1_000;
/// The fixed cost of a look, counted in claims.
const SCRIPT: usize = 20;

/// A name, and our claims that stand in its line.
pub(crate) type Stand = (Name, Vec<ClaimId>);

pub(crate) struct Renewing<'a> {
    calls: &'a Calls,
    fleet: &'a dyn Fleet,
    clock: &'a Arc<dyn Clock>,
    server: &'a Server,
    /// After this no new request is sent.
    late: Moment,
    /// After this no reply is waited for: core would discard all results.
    over: Moment,
    /// How long the replies to one batch of looks should take.
    in_one_go: Duration,
    renewal: Renewal,
}

/// A name where the server's count of our claims differs from ours. `holding` is how many the server says hold there,
/// and the sum of their numbers.
struct Differing<'a> {
    stand: &'a Stand,
    holding: Option<(u64, u64)>,
}

/// The claims that one script looks for.
struct Piece {
    /// The index of its name among those that differ.
    of: usize,
    stand: Stand,
    /// Whether these are all of our claims on the name.
    is_all: bool,
    left_out: u32,
}

impl<'a> Renewing<'a> {
    /// A renewal that begins `now` and has to end `within` that time.
    pub(crate) fn new(
        calls: &'a Calls,
        fleet: &'a dyn Fleet,
        clock: &'a Arc<dyn Clock>,
        server: &'a Server,
        (now, within): (Moment, Duration),
    ) -> Self {
        let until = now + calls.ttl;
        let renewal = nothing(until);
        let (late, over, in_one_go) = (now + within / 8 * 5, now + within / 8 * 7, within / 8);
        Self { calls, fleet, clock, server, late, over, in_one_go, renewal }
    }

    /// Renews all of them. An error when nothing at all was renewed.
    pub(crate) async fn renew(mut self, standing: &[Stand]) -> Result<Renewal> {
        let (mut done, mut differing) = (0, Vec::new());
        for some in standing.chunks(PIPELINE) {
            match self.renew_some(some, &mut differing).await {
                Ok(()) => done += some.len(),
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
            if self.is_late() {
                break;
            }
        }
        // These claims now have the least time left, so they come first the next time.
        standing[done..].iter().for_each(|stand| self.leave_out(stand));
        self.compare(&differing).await;
        self.pace().leave_out(&self.renewal.unsure);
        Ok(self.renewal)
    }

    /// Renews these names, and adds those where the server's count differs from ours.
    async fn renew_some(&mut self, some: &'a [Stand], differing: &mut Vec<Differing<'a>>) -> Result<()> {
        let commands = some.iter().map(|(name, _)| (name, self.calls.renew(name))).collect();
        let (renewed, _) = self.ask_each(commands).await?;
        for (stand, renewed) in some.iter().zip(renewed) {
            match renewed {
                Ok(reply) if reply::counted(&reply) == Some(sum(&stand.1)) => {}
                Ok(reply) => differing.push(Differing { stand, holding: reply::holding(&reply) }),
                Err(error) => self.unsure(stand, &error),
            }
        }
        Ok(())
    }

    async fn compare(&mut self, differing: &[Differing<'_>]) {
        let pieces = self.pieces(differing);
        let mut held = vec![Some((0, 0)); differing.len()];
        let (mut rest, mut goes_on) = (pieces.as_slice(), true); // at least one batch is sent
        while !rest.is_empty() && goes_on {
            let count = self.pace().count(rest.iter().map(Piece::cost));
            let (some, others) = rest.split_at(count);
            goes_on = self.look_for(some, &mut held).await && !self.is_late();
            rest = others;
        }
        let late = Error::new(ErrorKind::Timeout, "the renewal ran out of time for so many claims");
        for piece in rest {
            self.unsure(&piece.stand, &late);
            held[piece.of] = None;
        }
        self.find_strays(differing, &held).await;
    }

    /// Splits the claims into pieces. Those that were left out longest come first.
    fn pieces(&self, differing: &[Differing<'_>]) -> Vec<Piece> {
        let pace = self.pace();
        let mut pieces = Vec::new();
        for (of, Differing { stand: (name, claims), .. }) in differing.iter().enumerate() {
            let mut claims = claims.clone();
            claims.sort_by_key(|claim| Reverse(pace.is_left_out(*claim)));
            let is_all = claims.len() <= LOOKS;
            let nobody = claims.is_empty().then_some(&claims[..]); // strays of ours may hold there
            pieces.extend(claims.chunks(LOOKS).chain(nobody).map(|some| {
                let left_out = some.first().map_or(0, |first| pace.is_left_out(*first));
                Piece { of, stand: (name.clone(), some.to_vec()), is_all, left_out }
            }));
        }
        pieces.sort_by_key(|piece| Reverse(piece.left_out));
        pieces
    }

    /// Looks for these pieces, notes who is gone and who waits, and counts the holders. Returns whether there was any
    /// reply.
    async fn look_for(&mut self, some: &[Piece], held: &mut [Option<(u64, u64)>]) -> bool {
        let command = |piece: &Piece| {
            let (name, claims) = &piece.stand;
            self.calls.look(name, claims, if piece.is_all { "1" } else { "0" })
        };
        let asked = self.ask_each(some.iter().map(|piece| (&piece.stand.0, command(piece))).collect()).await;
        let cost = some.iter().map(Piece::cost).sum();
        let took = asked.as_ref().map_or(Duration::MAX, |(_, took)| *took);
        self.pace().took(took, cost, self.in_one_go);
        let is_heard = asked.is_ok();
        let looked = match asked {
            Ok((looked, _)) => looked,
            Err(error) => some.iter().map(|_| Err(error.clone())).collect(),
        };
        for (piece, looked) in some.iter().zip(looked) {
            match looked.and_then(|reply| reply::compared(&reply, self.calls.session)) {
                Ok(seen) => {
                    if let Some((of_all, of_numbers)) = &mut held[piece.of] {
                        let (count, numbers) = sum(&seen.held);
                        (*of_all, *of_numbers) = (*of_all + count, *of_numbers + numbers);
                    }
                    let waits_not: HashSet<ClaimId> = seen.held.iter().chain(&seen.gone).copied().collect();
                    let waiting = piece.stand.1.iter().filter(|id| !waits_not.contains(id));
                    self.renewal.waiting.extend(waiting);
                    self.renewal.gone.extend(seen.gone);
                    self.stray(&piece.stand.0, seen.strays);
                }
                Err(error) => {
                    self.unsure(&piece.stand, &error);
                    held[piece.of] = None;
                }
            }
        }
        is_heard
    }

    /// Looks for our strays on names whose crowds were looked for in pieces.
    async fn find_strays(&mut self, differing: &[Differing<'_>], held: &[Option<(u64, u64)>]) {
        let mut commands = Vec::new();
        let mut crowds = Vec::new();
        for (Differing { stand, holding }, held) in differing.iter().zip(held) {
            if let Some((count, sum)) = held.filter(|held| *holding != Some(*held) && stand.1.len() > LOOKS) {
                let known = format!("{count} {sum}");
                commands.push((&stand.0, self.calls.look(&stand.0, &[], &known)));
                crowds.push(*stand);
            }
        }
        if commands.is_empty() || self.is_late() {
            return; // the next renewal finds them
        }
        let Ok((looked, _)) = self.ask_each(commands).await else { return };
        for ((name, claims), looked) in crowds.into_iter().zip(looked) {
            let seen = looked.and_then(|reply| reply::compared(&reply, self.calls.session));
            let ours: HashSet<&ClaimId> = claims.iter().collect();
            let strays = seen.map_or_else(|_| Vec::new(), |seen| seen.strays);
            self.stray(name, strays.into_iter().filter(|id| !ours.contains(id)));
        }
    }

    /// Sends the commands on the connection for renewals, because trouble on the other one must not cost a hold.
    /// Commands for names that have moved are then sent to their new servers, all before the first reply is waited for.
    /// Also returns how long the replies took, counted from the first one. An error when there is no reply at all.
    async fn ask_each(&self, commands: Vec<(&Name, Cmd)>) -> Result<(Vec<Result<Value>>, Duration)> {
        let ask =
            |(_, command): &(&Name, Cmd)| self.server.renewals.ask(command.clone(), WhenDropped::Forget);
        let asked: Vec<_> = commands.iter().map(ask).collect();
        let (mut replies, mut first) = (Vec::with_capacity(asked.len()), None);
        for reply in asked {
            let reply = self.in_time(reply).await;
            first.get_or_insert_with(|| self.clock.now());
            replies.push(reply);
        }
        let took = first.map_or(Duration::ZERO, |first| self.clock.now().since(first));
        if let Some(Err(error)) = replies.iter().find(|reply| reply.is_err()) {
            self.fleet.doubt();
            if replies.iter().all(Result::is_err) {
                return Err(error.clone());
            }
        }
        let settled = |((name, command), reply)| -> Reply<Value> {
            match reply {
                Ok(Value::ServerError(_)) => self.fleet.ask(name, command, WhenDropped::Forget),
                reply => Box::pin(ready(reply)),
            }
        };
        let asked: Vec<Reply<Value>> = commands.into_iter().zip(replies).map(settled).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for reply in asked {
            answers.push(self.in_time(reply).await);
        }
        Ok((answers, took))
    }

    async fn in_time(&self, reply: impl Future<Output = Result<Value>>) -> Result<Value> {
        tokio::select! {
            biased;
            reply = reply => reply,
            () = Sleep::until(self.clock, self.over) => {
                Err(Error::new(ErrorKind::Timeout, "the reply did not come in time for this renewal"))
            }
        }
    }

    fn is_late(&self) -> bool {
        self.clock.now() > self.late
    }

    fn unsure(&mut self, stand: &Stand, error: &Error) {
        let name = &stand.0;
        unharmed(
            || tracing::warn!(lock.name = %name, %error, "cannot renew the claims on this lock; will retry"),
        );
        self.leave_out(stand);
    }

    fn leave_out(&mut self, (name, claims): &Stand) {
        if claims.is_empty() {
            self.renewal.missed.push(name.clone());
        }
        self.renewal.unsure.extend(claims);
    }

    fn stray(&mut self, name: &Name, claims: impl IntoIterator<Item = ClaimId>) {
        self.renewal.strays.extend(claims.into_iter().map(|id| (name.clone(), id)));
    }

    fn pace(&self) -> MutexGuard<'a, Pace> {
        self.server.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Piece {
    fn cost(&self) -> usize {
        self.stand.1.len() + SCRIPT
    }
}

/// A renewal of no claims. Of a session without claims the server keeps nothing.
pub(crate) fn nothing(until: Moment) -> Renewal {
    Renewal {
        until,
        gone: Vec::new(),
        unsure: Vec::new(),
        missed: Vec::new(),
        waiting: Vec::new(),
        strays: Vec::new(),
    }
}

/// The count of these claims, and the sum of their numbers.
fn sum(claims: &[ClaimId]) -> (u64, u64) {
    (claims.len() as u64, claims.iter().map(|claim| claim.number).sum())
}
