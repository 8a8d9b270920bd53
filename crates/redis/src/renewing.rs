//! A renewal of what one client has on one server.
//!
//! First all names are renewed: that costs the same behind three claims and behind 30 000. Then those claims are looked
//! for of which the server counts others than we do, in pieces, for one script for all of a crowd would keep everyone
//! else waiting. What is known when the time is over is said and stays done; of the others we are unsure, and they come
//! first the next time.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::future::ready;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use redis::{Cmd, Value};
use tidelock::{ClaimId, Error, ErrorKind, Moment, Name, Renewal, Reply, Result, Sleep, unharmed};

use crate::link::WhenDropped;
use crate::pace::Pace;
use crate::reply;
use crate::server::Server;
use crate::session::{LOOKS, RedisSession};

/// How many names are renewed by one pipeline: others' commands get a turn in between, and so does this thread.
const PIPELINE: usize = 256;
/// What a look costs beside its claims, counted in claims.
const SCRIPT: usize = 20;

/// A name, and our claims that stand in its line.
pub(crate) type Stand = (Name, Vec<ClaimId>);

pub(crate) struct Renewing<'a> {
    session: &'a RedisSession,
    server: &'a Server,
    /// When nothing more is begun.
    late: Moment,
    /// When nothing more is waited for: core would discard all that is known.
    over: Moment,
    /// How long the answers to what is asked at once should take.
    in_one_go: Duration,
    renewal: Renewal,
}

/// A name where the server counts other claims of ours than we do; and how many it says hold there, and the sum of their
/// numbers.
struct Differing<'a> {
    stand: &'a Stand,
    holding: Option<(u64, u64)>,
}

/// What one script looks for.
struct Piece {
    /// Of which of those that differ.
    of: usize,
    stand: Stand,
    /// Whether this is all of it.
    is_all: bool,
    left_out: u32,
}

impl<'a> Renewing<'a> {
    /// A renewal that began `now`, and is over `within` that time.
    pub(crate) fn new(session: &'a RedisSession, server: &'a Server, now: Moment, within: Duration) -> Self {
        let until = now + session.ttl;
        let renewal = Renewal { until, gone: Vec::new(), unsure: Vec::new(), strays: Vec::new() };
        let (late, over, in_one_go) = (now + within / 8 * 5, now + within / 8 * 7, within / 8);
        Self { session, server, late, over, in_one_go, renewal }
    }

    /// An error when nothing at all was renewed.
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
        // Their time ends first now, so they come first the next time.
        self.renewal.unsure.extend(standing[done..].iter().flat_map(|(_, claims)| claims));
        self.compare(&differing).await;
        self.pace().leave_out(&self.renewal.unsure);
        Ok(self.renewal)
    }

    /// Renews these names, and says where the server counts other claims than we do.
    async fn renew_some(&mut self, some: &'a [Stand], differing: &mut Vec<Differing<'a>>) -> Result<()> {
        let commands = some.iter().map(|(name, _)| (name, self.session.renew_command(name))).collect();
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
        let (mut rest, mut goes_on) = (pieces.as_slice(), true); // something is looked for in any case
        while !rest.is_empty() && goes_on {
            let count = self.pace().count(rest.iter().map(Piece::cost));
            let (some, others) = rest.split_at(count);
            goes_on = self.look_for(some, &mut held).await && !self.is_late();
            rest = others;
        }
        let late = Error::new(ErrorKind::Timeout, "a renewal has no time for all of a crowd");
        for piece in rest {
            self.unsure(&piece.stand, &late);
            held[piece.of] = None;
        }
        self.find_strays(differing, &held).await;
    }

    /// Those come first that were left out longest.
    fn pieces(&self, differing: &[Differing<'_>]) -> Vec<Piece> {
        let pace = self.pace();
        let mut pieces = Vec::new();
        for (of, Differing { stand: (name, claims), .. }) in differing.iter().enumerate() {
            let mut claims = claims.clone();
            claims.sort_by_key(|claim| Reverse(pace.is_left_out(*claim)));
            let is_all = claims.len() <= LOOKS;
            let nobody = claims.is_empty().then_some(&claims[..]); // others of ours may hold there
            pieces.extend(claims.chunks(LOOKS).chain(nobody).map(|some| {
                let left_out = some.first().map_or(0, |first| pace.is_left_out(*first));
                Piece { of, stand: (name.clone(), some.to_vec()), is_all, left_out }
            }));
        }
        pieces.sort_by_key(|piece| Reverse(piece.left_out));
        pieces
    }

    /// Takes in what is answered, and counts who holds. Says whether anything was.
    async fn look_for(&mut self, some: &[Piece], held: &mut [Option<(u64, u64)>]) -> bool {
        let command = |piece: &Piece| {
            let (name, claims) = &piece.stand;
            self.session.look_command(name, claims, if piece.is_all { "1" } else { "sum" })
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
            match looked.and_then(|reply| reply::compared(&reply, self.session.id)) {
                Ok(seen) => {
                    self.renewal.gone.extend(seen.gone);
                    self.stray(&piece.stand.0, seen.strays);
                    if let Some((count, sum)) = &mut held[piece.of] {
                        (*count, *sum) = (*count + seen.holding.0, *sum + seen.holding.1);
                    }
                }
                Err(error) => {
                    self.unsure(&piece.stand, &error);
                    held[piece.of] = None;
                }
            }
        }
        is_heard
    }

    /// Asks for those of ours that hold besides crowds that were asked about in pieces.
    async fn find_strays(&mut self, differing: &[Differing<'_>], held: &[Option<(u64, u64)>]) {
        let mut commands = Vec::new();
        let mut crowds = Vec::new();
        for (Differing { stand, holding }, held) in differing.iter().zip(held) {
            if let Some((count, sum)) = held.filter(|held| *holding != Some(*held) && stand.1.len() > LOOKS) {
                let known = format!("{count} {sum}");
                commands.push((&stand.0, self.session.look_command(&stand.0, &[], &known)));
                crowds.push(*stand);
            }
        }
        if commands.is_empty() || self.is_late() {
            return; // the next renewal finds them
        }
        let Ok((looked, _)) = self.ask_each(commands).await else { return };
        for ((name, claims), looked) in crowds.into_iter().zip(looked) {
            let seen = looked.and_then(|reply| reply::compared(&reply, self.session.id));
            let ours: HashSet<&ClaimId> = claims.iter().collect();
            let strays = seen.map_or_else(|_| Vec::new(), |seen| seen.strays);
            self.stray(name, strays.into_iter().filter(|id| !ours.contains(id)));
        }
    }

    /// Asks by the way that renewals take, for nothing that happens to the other may cost a hold; and elsewhere about the
    /// names that have moved, whose questions all lie in a queue before the first answer is waited for. Says how long the
    /// answers took from the first on. An error when there is none at all.
    async fn ask_each(&self, commands: Vec<(&Name, Cmd)>) -> Result<(Vec<Result<Value>>, Duration)> {
        let ask =
            |(_, command): &(&Name, Cmd)| self.server.renewals.ask(command.clone(), WhenDropped::Forget);
        let asked: Vec<_> = commands.iter().map(ask).collect();
        let (mut replies, mut first) = (Vec::with_capacity(asked.len()), None);
        for reply in asked {
            let reply = self.in_time(reply).await;
            first.get_or_insert_with(|| self.session.clock.now());
            replies.push(reply);
        }
        let took = first.map_or(Duration::ZERO, |first| self.session.clock.now().since(first));
        if let Some(Err(error)) = replies.iter().find(|reply| reply.is_err()) {
            self.session.fleet.doubt();
            if replies.iter().all(Result::is_err) {
                return Err(error.clone());
            }
        }
        let settled = |((name, command), reply)| -> Reply<Value> {
            match reply {
                Ok(Value::ServerError(_)) => self.session.fleet.ask(name, command, WhenDropped::Forget),
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
            () = Sleep::until(&self.session.clock, self.over) => {
                Err(Error::new(ErrorKind::Timeout, "the answer would come too late for a renewal"))
            }
        }
    }

    fn is_late(&self) -> bool {
        self.session.clock.now() > self.late
    }

    fn unsure(&mut self, (name, claims): &Stand, error: &Error) {
        unharmed(|| tracing::warn!(lock.name = %name, %error, "the claims on one name could not be renewed"));
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

/// How many there are, and the sum of their numbers.
fn sum(claims: &[ClaimId]) -> (u64, u64) {
    (claims.len() as u64, claims.iter().map(|claim| claim.number).sum())
}
