//! One random sequence of operations, on the store and on the model's `World`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_core::backend::Claim;
use tidelock_core::{ClaimId, ErrorKind, Kind, Line, Name, Result, SessionId};
use tidelock_model::{Dice, Event, Join, Leave, Op, Wishes, World};
use tokio::sync::oneshot;

use super::ordered::{self, Done};
use super::server::{SECOND, Server};
use crate::open_session::OpenSession;
use crate::request::{Action, Outcome, Request};
use crate::sql::{self, NOW};
use crate::trouble::Said;

const TTLS: [u64; 3] = [SECOND, 3 * SECOND, 15 * SECOND];
/// How far the clock is set back: further than any lifetime, by the width of an hour's sweeps, and by days.
const BACK: [u64; 3] = [20 * SECOND, 3_700 * SECOND, 200_000 * SECOND];
/// The most joins of one batch, and the most of its other requests.
const JOINS: u64 = 6;
const OTHERS: u64 = 2;

struct Client {
    id: SessionId,
    /// Two clients share each session, so what one of them remembers does not help the other: the server has to know
    /// which joins are void or repeated.
    twins: [Arc<OpenSession>; 2],
}

pub(super) struct Sequence<'a> {
    server: &'a Server,
    clients: Vec<Client>,
    world: World<Name>,
    names: Vec<Name>,
    newest: BTreeMap<Name, u64>,
    tokens: BTreeMap<ClaimId, u64>,
    /// The names that were not looked after since time has passed.
    stale: Vec<Name>,
    joins: BTreeMap<ClaimId, Join<Name>>,
    /// Claims whose transactions were committed. Their rows may still be there.
    ended: BTreeSet<ClaimId>,
    /// Of what a client believes of a name.
    beliefs: Dice,
    pub(super) log: Vec<String>,
}

type Verdict<T = ()> = std::result::Result<T, String>;

impl<'a> Sequence<'a> {
    pub(super) async fn begin(seed: u64, server: &'a Server, dice: &Dice) -> Self {
        server.clock.set(2_000_000_000 * SECOND + dice.below(SECOND));
        let mut world = World::new();
        let names = ["stock", "a'b", "é {"].map(|name| Name::new(name).unwrap()).to_vec();
        let mut clients = Vec::new();
        for number in 1..=3 {
            let (id, ttl) = (SessionId::from_bits(seed << 3 | number), *dice.pick(&TTLS));
            world.step(Op::Open { session: id, ttl });
            let twin = |has_returning| server.client_of(id, ttl, &format!("turned {seed:x}"), has_returning);
            clients.push((Client { id, twins: [true, false].map(twin) }, ttl));
        }
        let (clients, ttls): (Vec<_>, Vec<_>) = clients.into_iter().unzip();
        let (newest, tokens, stale, joins, ended, log) = Default::default();
        let beliefs = Dice::new(seed, "beliefs");
        let sequence =
            Self { server, clients, world, names, newest, tokens, stale, joins, ended, beliefs, log };
        sequence.clean(seed).await.unwrap();
        for (client, ttl) in sequence.clients.iter().zip(ttls) {
            server.open(client.id, ttl).await;
        }
        sequence
    }

    pub(super) fn names(&self) -> Vec<Name> {
        self.names.clone()
    }

    /// Deletes all rows of the sequence; a run of this seed that failed may have left some.
    pub(super) async fn clean(&self, seed: u64) -> std::result::Result<(), Said> {
        let hex: String = format!("turned {seed:x}").bytes().map(|byte| format!("{byte:02x}")).collect();
        let ids = sql::list((1..=3).map(|number| SessionId::from_bits(seed << 3 | number).get()));
        let text = format!(
            "DELETE FROM tidelock_claim WHERE session IN ({ids}); DELETE FROM tidelock_session WHERE id IN ({ids}); \
             DELETE FROM tidelock_bell WHERE session IN ({ids}); \
             DELETE FROM tidelock_line WHERE name >= x'{hex}' AND name < CONCAT(x'{hex}', x'01')"
        );
        self.server.link.ask(&text).await.map(drop)
    }

    pub(super) fn is_over(&self) -> bool {
        self.world.sessions().next().is_none()
    }

    fn client(&self, session: SessionId, dice: &Dice) -> Arc<OpenSession> {
        let client = self.clients.iter().find(|client| client.id == session).unwrap();
        client.twins[usize::from(dice.one_in(3))].clone()
    }

    /// One operation, or several at once. An error says what is wrong.
    pub(super) async fn step(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        if wishes.dice().one_in(3) {
            self.pass(wishes.dice());
            if self.is_over() {
                return Ok(());
            }
        }
        match wishes.dice().below(100) {
            0..40 => self.join(wishes).await,
            40..60 => self.leave(wishes).await,
            60..68 => self.lighten(wishes).await,
            68..75 => self.resize(wishes).await,
            75..80 => self.renew(wishes).await,
            80..93 => self.together(wishes).await,
            93..96 => self.set_back(wishes).await,
            96..98 => self.commit(wishes).await,
            _ => {
                let name = wishes.name();
                let world = self.world.clone();
                self.follow(vec![world], &[name], wishes.dice()).await
            }
        }
    }

    fn pass(&mut self, dice: &Dice) {
        let by = span(dice);
        self.server.clock.pass(by);
        self.world.step(Op::Pass(by));
        self.stale.clone_from(&self.names);
        self.log.push(format!("{by} µs pass"));
    }

    async fn join(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let (name, id) = match wishes.dice().one_in(4) {
            true => wishes.anyone(&self.world),
            false => {
                let name = wishes.name();
                let id = wishes.fresh(&self.world, &name);
                (name, id)
            }
        };
        if self.ended.contains(&id) {
            return Ok(()); // nobody asks for it again
        }
        let drawn = wishes.join(&self.world, &name, id);
        let join = self.joins.entry(id).or_insert(drawn).clone();
        let session = self.client(id.session, wishes.dice());
        if self.beliefs.one_in(3) {
            session.own_claims.set_free(&name); // whether it is or not
        }
        self.carry_out(&session, vec![Op::Join(join)], wishes.dice()).await
    }

    async fn leave(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let (name, id) = wishes.anyone(&self.world);
        let by = wishes.leaver(&self.world, id);
        let leave = self.draw_leave(wishes.dice(), by, name, id);
        let session = self.client(by, wishes.dice());
        self.carry_out(&session, vec![leave], wishes.dice()).await
    }

    fn draw_leave(&self, dice: &Dice, by: SessionId, name: Name, id: ClaimId) -> Op<Name> {
        let stands = self.world.line(&name).is_some_and(|line| line.claim(id).is_some());
        // Only a claim that stands in line is evicted as void.
        let may_be_void = by == id.session || stands;
        let how = if may_be_void && dice.one_in(3) { Leave::Void } else { Leave::Done };
        Op::Leave { name, id, how }
    }

    async fn lighten(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let (name, id) = wishes.anyone(&self.world);
        let holds =
            self.world.line(&name).and_then(|line| line.claim(id)).is_some_and(|claim| claim.token.is_some());
        if !holds {
            return Ok(()); // core lightens only what holds
        }
        let weight = wishes.dice().weight(3);
        let session = self.client(id.session, wishes.dice());
        self.carry_out(&session, vec![Op::Lighten { name, id, weight }], wishes.dice()).await
    }

    async fn resize(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let (name, from, to) = wishes.resize(&self.world);
        let session = self.client(wishes.session(&self.world), wishes.dice());
        self.carry_out(&session, vec![Op::Resize { name, from, to }], wishes.dice()).await
    }

    /// Several requests of one client, which share a transaction; sometimes the same ones again, as after an answer that
    /// was lost.
    async fn together(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let me = wishes.session(&self.world);
        let mut ops: Vec<Op<Name>> = Vec::new();
        let mut named = Vec::new();
        for _ in 0..wishes.dice().below(OTHERS + 1) {
            let (name, id) = wishes.anyone(&self.world);
            if !named.contains(&id) {
                named.push(id);
                ops.push(self.draw_leave(wishes.dice(), me, name, id));
            }
        }
        for _ in 0..1 + wishes.dice().below(JOINS) {
            let name = wishes.name();
            let id = ClaimId { session: me, number: wishes.number() };
            let join = wishes.join(&self.world, &name, id);
            self.joins.insert(id, join.clone());
            ops.push(Op::Join(join));
        }
        let session = self.client(me, wishes.dice());
        let is_repeated = wishes.dice().one_in(4);
        self.carry_out(&session, ops.clone(), wishes.dice()).await?;
        if is_repeated && self.world.session(me).is_some() {
            let twin = self.client(me, wishes.dice());
            self.carry_out(&twin, ops, wishes.dice()).await?;
        }
        Ok(())
    }

    /// A transaction of the user is committed that has a claim inside. Nobody was told.
    async fn commit(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let mutexes = self.world.lines().filter(|(_, line)| line.kind == Kind::Mutex);
        let held = mutexes.flat_map(|(name, line)| line.claims.iter().map(move |claim| (name, claim)));
        let held = held.filter(|(_, claim)| claim.token.is_some());
        let held: Vec<_> = held.map(|(name, claim)| (name.clone(), claim.id)).collect();
        if held.is_empty() {
            return Ok(());
        }
        let (name, id) = wishes.dice().pick(&held).clone();
        let text = format!(
            "UPDATE tidelock_slot t JOIN tidelock_claim c ON c.slot = t.slot SET t.stamp = t.stamp + 1 \
             WHERE c.session = {} AND c.number = {} AND c.state = 0 AND c.mark = t.stamp",
            id.session.get(),
            id.number
        );
        let done = self.server.link.ask(&text).await.map_err(|said| format!("{said:?}"))?;
        if done.affected != [1] {
            return Ok(()); // it has no row of its own
        }
        self.log.push(format!("{id} was inside a transaction, which is committed"));
        self.ended.insert(id);
        self.world.step(Op::Leave { name: name.clone(), id, how: Leave::Done });
        let world = self.world.clone();
        self.follow(vec![world], &[name], wishes.dice()).await
    }

    /// The server's clock is set back while all clients live. Their next renewals, or the next looks, make up for it.
    async fn set_back(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        if self.world.sessions().count() < self.clients.len() {
            return Ok(()); // who is dead and has no claims would come alive
        }
        let by = *wishes.dice().pick(&BACK);
        self.server.clock.set_back(by);
        self.log.push(format!("the clock is set back by {by} µs"));
        let looks_first = wishes.dice().one_in(2);
        let ids: Vec<_> = self.clients.iter().map(|client| client.id).collect();
        if looks_first {
            for name in self.names() {
                self.line(&name, wishes.dice()).await?;
            }
        }
        let standing: Vec<SessionId> =
            self.world.lines().flat_map(|(_, line)| &line.claims).map(|claim| claim.id.session).collect();
        for id in ids {
            if !(looks_first && standing.contains(&id)) {
                let session = self.client(id, wishes.dice());
                session.requests.store(0, Ordering::Relaxed);
                session.renew(&[]).await.map_err(|error| format!("{id} renews: {error:?}"))?;
            }
            self.world.step(Op::Renew(id));
        }
        let (world, names) = (self.world.clone(), self.names());
        self.follow(vec![world], &names, wishes.dice()).await
    }

    async fn renew(&mut self, wishes: &mut Wishes<'_, Name>) -> Verdict {
        let client = wishes.dice().pick(&self.clients).id;
        let mut standing: BTreeMap<Name, Vec<ClaimId>> = BTreeMap::new();
        let mut waits = Vec::new();
        for (name, line) in self.world.lines() {
            for claim in line.claims.iter().filter(|claim| claim.id.session == client) {
                standing.entry(name.clone()).or_default().push(claim.id);
                if claim.token.is_none() {
                    waits.push(claim.id);
                }
            }
        }
        let standing: Vec<_> = standing.into_iter().collect();
        let session = self.client(client, wishes.dice());
        session.requests.store(0, Ordering::Relaxed); // each sequence has its own time, and a sweep is for all
        let answer = session.renew(&standing).await;
        let event = self.world.step(Op::Renew(client)).remove(0);
        self.log.push(format!("{client} renews: {answer:?}, the rule: {event:?}"));
        let is_right = match (&event, &answer) {
            (Event::Lives { .. }, Ok(renewal)) => {
                let waits_too = |id: &ClaimId| renewal.waiting.contains(id);
                let is_known = |(_, id): &(Name, ClaimId)| self.ended.contains(id);
                renewal.gone.is_empty() && renewal.strays.iter().all(is_known) && waits.iter().all(waits_too)
            }
            (Event::Over { .. }, Err(error)) => error.kind() == ErrorKind::Lost,
            _ => false,
        };
        is_right.then_some(()).ok_or_else(|| format!("the rule says {event:?}, the store {answer:?}"))
    }

    /// Sends requests as one batch, while time may pass between two statements, and finds an order of the requests, and
    /// a moment for that time, in which the rule gives the same answers and the same lines.
    async fn carry_out(&mut self, session: &Arc<OpenSession>, ops: Vec<Op<Name>>, dice: &Dice) -> Verdict {
        let by = dice.one_in(3).then(|| span(dice));
        if let Some(by) = by {
            self.server.clock.will_jump(dice.below(8), by);
        }
        let answers = self.ask(session, &ops, dice).await;
        let has_jumped = by.is_none() || self.server.clock.has_jumped();
        let mut names: Vec<Name> = ops.iter().map(|op| ordered::name(op).clone()).collect();
        names.sort();
        names.dedup();
        self.log.push(format!("{}, at once: {ops:?}: {answers:?}; between: {by:?} µs", session.id));
        let done: Vec<Done> = ops.into_iter().zip(answers).map(|(op, answer)| Done { op, answer }).collect();
        let is_lenient = |name: &Name| done.len() > 1 || by.is_some() || self.stale.contains(name);
        let worlds = ordered::worlds(&self.world, &done, by, has_jumped, is_lenient);
        if worlds.is_empty() {
            let rule: Vec<_> = {
                let mut world = self.world.clone();
                done.iter().map(|done| world.step(done.op.clone()).remove(0)).collect()
            };
            return Err(format!("in no order does the rule say this; in the usual one it says {rule:?}"));
        }
        if by.is_none() {
            self.nothing_went_to_the_dead().await?;
        }
        if by.is_some() {
            self.stale.clone_from(&self.names);
        }
        self.follow(worlds, &names, dice).await
    }

    /// What these requests let in lives. A look afterwards would take it away again, and hide it.
    async fn nothing_went_to_the_dead(&self) -> Verdict {
        let ids = sql::list(self.clients.iter().map(|client| client.id.get()));
        let text = format!(
            "SELECT c.session, c.number FROM tidelock_claim c LEFT JOIN tidelock_session s ON s.id = c.session \
             WHERE c.session IN ({ids}) AND c.state = 0 AND c.since = {NOW} \
             AND COALESCE(s.expires, 0) <= {NOW} \
             UNION ALL SELECT l.session, l.number FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session \
             WHERE l.session IN ({ids}) AND l.spilled = 0 AND l.since = {NOW} AND COALESCE(s.expires, 0) <= {NOW}"
        );
        let found = self.server.link.ask(&text).await.map_err(|said| format!("{said:?}"))?;
        match found.rows.first() {
            Some(row) => Err(format!("{}-{} was granted, and is dead", row.number(0), row.number(1))),
            None => Ok(()),
        }
    }

    async fn ask(&self, session: &Arc<OpenSession>, ops: &[Op<Name>], dice: &Dice) -> Vec<Result<Outcome>> {
        let (mut requests, mut answers) = (Vec::new(), Vec::new());
        for op in ops {
            let action = match op {
                Op::Join(Join { name, id, kind, weight, capacity, patience }) => {
                    let claim = Claim::new(*id, name.clone(), *kind, *weight, *capacity);
                    let in_rows = *kind == Kind::Mutex && dice.one_in(4);
                    Action::Join { claim, patience: *patience, in_rows }
                }
                Op::Leave { id, how, .. } => Action::Leave { id: *id, how: *how },
                Op::Lighten { id, weight, .. } => Action::Lighten { id: *id, weight: *weight },
                Op::Resize { from, to, .. } => Action::Resize { from: *from, to: *to },
                other => panic!("{other:?} is no request"),
            };
            if matches!(op, Op::Lighten { .. } | Op::Resize { .. }) {
                let _ = session.tidied(ordered::name(op)).await; // as the session does before
            }
            let (answer, answered) = oneshot::channel();
            requests.push(Request { name: ordered::name(op).clone(), action, answer });
            answers.push(answered);
        }
        session.carry_out(&session.lanes.keepers, requests, session.clock.now()).await;
        let mut all = Vec::new();
        for answer in answers {
            all.push(answer.await.unwrap());
        }
        all
    }

    /// Looks after a line, and reads it.
    async fn line(&self, name: &Name, dice: &Dice) -> Verdict<Line> {
        let open: Vec<SessionId> = self.clients.iter().map(|client| client.id).collect();
        let session = self.client(*dice.pick(&open), dice);
        session.tidied(name).await.map_err(|error| format!("{error:?}"))?;
        session.inspect(name).await.map_err(|error| format!("{error:?}"))
    }

    /// Goes on with one of these worlds: the first in which these lines are as the store shows them.
    async fn follow(&mut self, worlds: Vec<World<Name>>, names: &[Name], dice: &Dice) -> Verdict {
        // A request may have begun to look after the line in the background: that is finished soon.
        for tries in 0.. {
            let mut lines = Vec::new();
            for name in names {
                lines.push((name.clone(), self.line(name, dice).await?));
            }
            let agrees =
                |world: &World<Name>| lines.iter().try_for_each(|(name, line)| same(world, name, line));
            let found = worlds.iter().find(|world| agrees(world).is_ok());
            match found {
                Some(world) => {
                    self.world = world.clone();
                    self.stale.retain(|stale| !names.contains(stale));
                    return lines.iter().try_for_each(|(name, line)| self.note(name, line));
                }
                None if tries < 40 => tokio::time::sleep(Duration::from_millis(5)).await,
                None => return agrees(&worlds[0]),
            }
        }
        Ok(())
    }

    /// Every new token of a name is greater than all before, and a claim keeps its own.
    fn note(&mut self, name: &Name, line: &Line) -> Verdict {
        // A claim that left and joins again is a new one.
        let stands = |id: &ClaimId| line.claims.iter().any(|claim| claim.id == *id && claim.is_held());
        let here = |id: &ClaimId| self.joins.get(id).is_some_and(|join| join.name == *name);
        self.tokens.retain(|id, _| !here(id) || stands(id));
        let mut fresh = Vec::new();
        for claim in &line.claims {
            let Some(token) = claim.token.map(tidelock_core::Token::get) else { continue };
            match self.tokens.get(&claim.id) {
                Some(known) if *known == token => {}
                None => fresh.push((token, claim.id)),
                known => return Err(format!("the token of {} was {known:?}, and is {token}", claim.id)),
            }
        }
        let newest = self.newest.entry(name.clone()).or_default();
        let before = *newest;
        for (token, id) in fresh {
            if token <= before {
                return Err(format!("the token of {id} is {token}, after {before}"));
            }
            *newest = (*newest).max(token);
            let is_on_it = |other: &ClaimId| self.joins.get(other).is_some_and(|join| join.name == *name);
            if self.tokens.iter().any(|(other, known)| *known == token && is_on_it(other)) {
                return Err(format!("two claims have the token {token}"));
            }
            self.tokens.insert(id, token);
        }
        Ok(())
    }
}

fn span(dice: &Dice) -> u64 {
    let by = *dice.pick(&[1, 5, 1_000, 300_000, SECOND / 2, SECOND, 4 * SECOND]);
    1 + dice.below(by)
}

/// Whether the store shows the line as the rule has it.
fn same(world: &World<Name>, name: &Name, line: &Line) -> Verdict {
    let wanted = world.line(name);
    let shown: Vec<_> =
        line.claims.iter().map(|claim| (claim.id, claim.weight, claim.token.is_some())).collect();
    let right: Vec<_> = wanted.map(|line| &line.claims[..]).unwrap_or_default().iter().collect();
    let right: Vec<_> = right.iter().map(|claim| (claim.id, claim.weight, claim.token.is_some())).collect();
    let is_same = shown == right
        && line.kind == wanted.map(|line| line.kind)
        && line.capacity == wanted.map(|line| line.capacity);
    is_same
        .then_some(())
        .ok_or_else(|| format!("the line of {name} is {wanted:?}, but the store shows {line:?}"))
}
