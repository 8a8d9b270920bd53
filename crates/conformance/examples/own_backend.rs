//! A complete backend in one file: Tidelock's model behind a lock, with the conformance suite as its `main`.
//!
//! A request takes the lock, handles the time that has passed, does its one operation, and releases the lock. Then it
//! signals the clients that are affected. A remote store does the same on its own side of the network.

use std::collections::BTreeMap;
use std::future::ready;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tidelock_conformance::report::Painter;
use tidelock_conformance::subjects::Seam;
use tidelock_conformance::{Belief, Mishap, Settings, Subject, run_with};
use tidelock_core::backend::{
    Backend, Claim, Clock, Grant, Leave, Left, Moment, Patience, Place, Renewal, Reply, Session, Shard,
    Sight, Signals,
};
use tidelock_core::{ClaimId, ClaimInfo, Error, ErrorKind, Line, Name, Options, Result, SessionId, Weight};
use tidelock_model::{Event, Join, Op, Refusal, World};

fn main() -> ExitCode {
    let subject = Seam::new("own", |time| Arc::new(Own::new(time.clock())))
        .assuming("The clients share one `Own` in one process.")
        .believing(Mishap::Eviction, Belief::MayOverlap("an evicted holder learns of it by a signal".into()))
        .believing(Mishap::StoppedClient, Belief::MayOverlap("a stopped client does not check again".into()));
    let subject: Arc<dyn Subject> = Arc::new(subject);
    let report = run_with(&subject, &Settings::default(), &mut |verdict| {
        println!("{}", verdict.text(Painter::for_stdout()));
    });
    println!("{}", report.summary(Painter::for_stdout()));
    if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A name in its namespace.
type Key = (Arc<str>, Name);

#[derive(Debug)]
struct Own {
    clock: Arc<dyn Clock>,
    kept: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    world: World<Key>,
    clients: BTreeMap<SessionId, (Arc<dyn Signals>, Arc<str>)>,
}

impl Own {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Arc::default() }
    }
}

#[async_trait]
impl Backend for Own {
    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    fn store(&self) -> &str {
        "own"
    }

    async fn open(
        &self,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> Result<Arc<dyn Session>> {
        let (clock, kept) = (self.clock.clone(), self.kept.clone());
        let session = OwnSession { clock, kept, id, ttl: options.ttl, namespace: options.namespace.clone() };
        session.with(|kept| drop(kept.clients.insert(id, (signals, options.label.clone()))));
        session.step(Op::Open { session: id, ttl: nanos(options.ttl) });
        Ok(Arc::new(session))
    }
}

#[derive(Debug)]
struct OwnSession {
    clock: Arc<dyn Clock>,
    kept: Arc<Mutex<Kept>>,
    id: SessionId,
    ttl: Duration,
    namespace: Arc<str>,
}

/// The signals to send, and their receivers, once the lock is released.
type News = Vec<(Arc<dyn Signals>, Word)>;

enum Word {
    Held(ClaimId, Grant),
    Gone(ClaimId),
    Over,
}

impl OwnSession {
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Handles the time that has passed, does `work`, and sends all signals that follow.
    fn act<T>(&self, work: impl FnOnce(&mut Kept) -> (T, News)) -> T {
        let (outcome, news) = self.with(|kept| {
            let passed = self.clock.now().as_nanos().saturating_sub(kept.world.now());
            let expired = kept.world.step(Op::Pass(passed));
            let mut news = kept.news(&expired);
            let (outcome, more) = work(kept);
            news.extend(more);
            (outcome, news)
        });
        for (signals, word) in news {
            match word {
                Word::Held(id, grant) => signals.held(id, grant),
                Word::Gone(id) => signals.gone(id),
                Word::Over => signals.over(),
            }
        }
        outcome
    }

    /// Does one operation, and returns its answer.
    fn step(&self, op: Op<Key>) -> Event<Key> {
        self.act(|kept| {
            let mut events = kept.world.step(op);
            let answer = events.remove(0);
            let mut news = kept.evicted(&answer, self.id);
            news.extend(kept.news(&events));
            (answer, news)
        })
    }

    fn key(&self, name: &Name) -> Key {
        (self.namespace.clone(), name.clone())
    }

    /// When this session ends; an error if it is over.
    fn until(&self) -> Result<Moment> {
        let until = self.with(|kept| kept.world.session(self.id).map(tidelock_model::Session::until));
        until.map(Moment::from_nanos).ok_or_else(over)
    }
}

impl Kept {
    fn news(&self, events: &[Event<Key>]) -> News {
        let mut news = News::new();
        for event in events {
            let (session, word) = match event {
                Event::Held { name, id, token } => {
                    let capacity = self.world.line(name).map_or(Weight::ONE, |line| line.capacity);
                    (id.session, Word::Held(*id, Grant { token: *token, capacity }))
                }
                Event::Over { session } => (*session, Word::Over),
                _ => continue,
            };
            news.extend(self.clients.get(&session).map(|(signals, _)| (signals.clone(), word)));
        }
        news
    }

    /// Another session's claim was taken out of the line.
    fn evicted(&self, answer: &Event<Key>, by: SessionId) -> News {
        match answer {
            Event::Left { id, left: Left::Held | Left::Waiting, .. } if id.session != by => {
                let told =
                    self.clients.get(&id.session).map(|(signals, _)| (signals.clone(), Word::Gone(*id)));
                told.into_iter().collect()
            }
            _ => News::new(),
        }
    }

    /// The time until the first of a line's holders ends, unless it renews.
    fn look_in(&self, key: &Key) -> Duration {
        let claims = self.world.line(key).map_or(&[][..], |line| &line.claims);
        let holders = claims.iter().filter(|claim| claim.token.is_some());
        let untils = holders.filter_map(|claim| Some(self.world.session(claim.id.session)?.until()));
        Duration::from_nanos(untils.min().unwrap_or(u64::MAX).saturating_sub(self.world.now()))
    }
}

#[async_trait]
impl Session for OwnSession {
    fn ttl(&self) -> Duration {
        self.ttl
    }

    fn shard(&self, _: &Name) -> Shard {
        Shard(0)
    }

    async fn join(&self, claim: &Claim, patience: Patience) -> Result<Place> {
        let (name, id, kind) = (self.key(&claim.name), claim.id, claim.kind);
        let (weight, capacity) = (claim.weight, claim.capacity);
        let answer = self.step(Op::Join(Join { name: name.clone(), id, kind, weight, capacity, patience }));
        Ok(match answer {
            Event::Held { token, .. } => {
                let capacity =
                    self.with(|kept| kept.world.line(&name).map_or(capacity, |line| line.capacity));
                Place::Held { grant: Grant { token, capacity }, until: self.until()? }
            }
            Event::Waiting { .. } => {
                Place::Waiting { until: self.until()?, look_in: self.with(|kept| kept.look_in(&name)) }
            }
            Event::Refused { why: Refusal::Busy, .. } => Place::Refused,
            Event::Refused { why: Refusal::Void, .. } => Place::Gone,
            other => return Err(refused(&other)),
        })
    }

    async fn look(&self, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let key = self.key(name);
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: self.ttl };
        for id in waiting {
            match self.step(Op::Look { name: key.clone(), id: *id }) {
                Event::Held { token, .. } => {
                    let capacity =
                        self.with(|kept| kept.world.line(&key).map_or(Weight::ONE, |line| line.capacity));
                    sight.held.push((*id, Grant { token, capacity }));
                }
                Event::Waiting { .. } => sight.look_in = self.with(|kept| kept.look_in(&key)),
                _ => sight.gone.push(*id),
            }
        }
        self.until()?;
        Ok(sight)
    }

    fn leave(&self, name: &Name, id: ClaimId, how: Leave) -> Reply<Left> {
        let answer = self.step(Op::Leave { name: self.key(name), id, how });
        Box::pin(ready(match answer {
            Event::Left { left, .. } => Ok(left),
            other => Err(refused(&other)),
        }))
    }

    async fn lighten(&self, claim: &Claim, weight: Weight) -> Result<()> {
        match self.step(Op::Lighten { name: self.key(&claim.name), id: claim.id, weight }) {
            Event::Lightened { .. } => Ok(()),
            other => Err(refused(&other)),
        }
    }

    async fn resize(&self, name: &Name, from: Weight, to: Weight) -> Result<()> {
        match self.step(Op::Resize { name: self.key(name), from, to }) {
            Event::Resized { .. } | Event::Refused { why: Refusal::NoLine, .. } => Ok(()),
            other => Err(refused(&other)),
        }
    }

    async fn renew(&self, _: Shard, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let Event::Lives { until, .. } = self.step(Op::Renew(self.id)) else {
            return Err(over());
        };
        let asked: Vec<ClaimId> = standing.iter().flat_map(|(_, ids)| ids).copied().collect();
        let known: Vec<(Name, ClaimId, bool)> = self.with(|kept| {
            let lines = kept.world.lines();
            let claims =
                lines.flat_map(|((_, name), line)| line.claims.iter().map(move |claim| (name, claim)));
            let mine = claims.filter(|(_, claim)| claim.id.session == self.id);
            mine.map(|(name, claim)| (name.clone(), claim.id, claim.token.is_none())).collect()
        });
        let stands = |id: &ClaimId| known.iter().any(|(_, known, _)| known == id);
        let gone = asked.iter().filter(|id| !stands(id)).copied().collect();
        let waits = |id: &ClaimId| known.iter().any(|(_, known, waits)| known == id && *waits);
        let waiting = asked.iter().filter(|id| waits(id)).copied().collect();
        let strays = known.iter().filter(|(_, id, _)| !asked.contains(id));
        let strays = strays.map(|(name, id, _)| (name.clone(), *id)).collect();
        Ok(Renewal {
            until: Moment::from_nanos(until),
            gone,
            unsure: Vec::new(),
            missed: Vec::new(),
            waiting,
            strays,
        })
    }

    async fn line(&self, name: &Name) -> Result<Line> {
        Ok(self.act(|kept| {
            let label = |id: &SessionId| {
                kept.clients.get(id).map_or_else(String::new, |(_, label)| label.to_string())
            };
            let info = |claim: &tidelock_model::Claim| {
                ClaimInfo::new(claim.id, claim.weight, claim.token, label(&claim.id.session), None)
            };
            let line = kept.world.line(&self.key(name)).map_or_else(Line::default, |line| {
                Line::new(line.kind, line.capacity, line.claims.iter().map(info).collect())
            });
            (line, News::new())
        }))
    }

    async fn names(&self, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        self.until()?;
        Ok(self.act(|kept| {
            let here = kept.world.lines().filter(|((space, _), _)| *space == self.namespace);
            let names = here.map(|((_, name), _)| name);
            let wanted =
                names.filter(|name| name.starts_with(prefix) && after.is_none_or(|after| *name > after));
            (wanted.take(100).cloned().collect(), News::new())
        }))
    }

    async fn close(&self) -> Result<()> {
        self.step(Op::Close(self.id));
        self.with(|kept| drop(kept.clients.remove(&self.id)));
        Ok(())
    }
}

/// The model's refusals, as core's errors.
fn refused(event: &Event<Key>) -> Error {
    let said = match event {
        Event::Refused { why, .. } => Error::of_refusal(*why),
        _ => None,
    };
    said.unwrap_or_else(|| Error::new(ErrorKind::Conflict, format!("the model refused: {event:?}")))
}

fn over() -> Error {
    Error::new(ErrorKind::Lost, "the claim's session is over")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
