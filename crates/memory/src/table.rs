//! The store's data, and what each request does to it: the rule of `tidelock-model`, made fast.
//!
//! Each namespace maps names to lines; sessions map to leases, whose ends are kept in order of time. Every request
//! first ends the leases that are due: all their claims leave before any claim is granted, so no dead claim is
//! granted. Then it does its work and settles the line that it changed: claims that fit are granted, and an empty
//! line is forgotten. Signals to other clients go to `signals`, and are sent when the store's lock is released.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tidelock_core::backend::{Claim, Leave, Left, Moment, Patience, Place, Renewal, Sight, Signals};
use tidelock_core::{ClaimId, ClaimInfo, Error, ErrorKind, Name, Options, Result, SessionId, Token, Weight};

use crate::lease::{Lease, Spot};
use crate::line::{Line, Standing};
use crate::pending_signals::{PendingSignals, Signal};
use crate::slab::Slab;
use crate::small_map::SmallMap;

/// How many names a page lists.
const PAGE: usize = 100;
/// Up to how many holders are checked one by one for their lifetimes.
const FEW: usize = 8;
/// A look this long after the end of a lifetime surely finds it over.
const HAIR: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Table {
    now: Moment,
    last_token: u64,
    leases: BTreeMap<SessionId, Lease>,
    ends: BTreeSet<(Moment, SessionId)>,
    lines: Slab<Line>,
    spaces: Slab<Space>,
    namespaces: BTreeMap<Arc<str>, usize>,
    signals: PendingSignals,
}

/// One namespace; it exists while a session uses it.
#[derive(Debug)]
struct Space {
    namespace: Arc<str>,
    sessions: usize,
    /// The index of each name's line.
    names: SmallMap<Name, usize>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            now: Moment::START,
            last_token: 0,
            leases: BTreeMap::new(),
            ends: BTreeSet::new(),
            lines: Slab::new(),
            spaces: Slab::new(),
            namespaces: BTreeMap::new(),
            signals: PendingSignals::default(),
        }
    }

    /// Takes the signals to send since the last call.
    pub(crate) fn take_signals(&mut self) -> PendingSignals {
        std::mem::take(&mut self.signals)
    }

    /// Moves the time to `now`, and ends every lease that is due.
    pub(crate) fn expire(&mut self, now: Moment) {
        self.now = self.now.max(now);
        if !self.is_anybody_due() {
            return;
        }
        let mut due = Vec::new();
        while self.is_anybody_due() {
            due.extend(self.ends.pop_first().map(|(_, id)| id));
        }
        self.lose(&due);
    }

    /// Ends these sessions as if they had expired, and tells them.
    pub(crate) fn lose(&mut self, sessions: &[SessionId]) {
        let ended: Vec<Lease> = sessions.iter().filter_map(|id| self.take_lease(*id)).collect();
        for lease in &ended {
            self.signals.add(&lease.signals, Signal::Over);
        }
        if !seeded!("expiry_keeps_claims") {
            self.end(&ended);
        }
    }

    /// The open sessions, with the labels of their clients.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionId, &str)> {
        self.leases.iter().map(|(id, lease)| (*id, &*lease.label))
    }

    /// The first end of a lease after `moment`.
    pub(crate) fn first_end_after(&self, moment: Moment) -> Option<Moment> {
        let later = (Bound::Excluded((moment, SessionId::from_bits(u64::MAX))), Bound::Unbounded);
        self.ends.range(later).next().map(|(until, _)| *until)
    }

    /// Opens a session, or renews it if it is open.
    pub(crate) fn open(&mut self, id: SessionId, options: &Options, signals: Arc<dyn Signals>) -> Result<()> {
        if let Some(lease) = self.leases.get_mut(&id) {
            lease.signals = signals;
        } else {
            let space = self.enter(&options.namespace);
            self.leases.insert(id, Lease::new(space, options, signals));
        }
        self.extend(id);
        Ok(())
    }

    /// Ends a session at its own request: it need not be told.
    pub(crate) fn close(&mut self, id: SessionId) -> Result<()> {
        let ended = self.take_lease(id);
        if !seeded!("close_keeps_claims") {
            self.end(ended.as_slice());
        }
        Ok(())
    }

    pub(crate) fn renew(&mut self, id: SessionId, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.extend(id);
        let now = self.now;
        self.leases.get_mut(&id).ok_or_else(Error::session_over)?.forget_void(now);
        let lease = self.lease(id)?;
        let (mut gone, mut waiting, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (name, claim) in standing.iter().flat_map(|(name, ids)| ids.iter().map(move |id| (name, id))) {
            match self.find(lease, name, claim.number) {
                Some((_, standing)) => {
                    known.insert(claim.number);
                    waiting.extend(standing.token.is_none().then_some(*claim));
                }
                None => gone.push(*claim),
            }
        }
        let strays = lease.claims.iter().filter(|(number, _)| !known.contains(number));
        let strays = strays.filter_map(|(number, spot)| {
            let name = self.lines.get(spot.line)?.name().clone();
            let number = *number;
            Some((name, ClaimId { session: id, number }))
        });
        Ok(Renewal {
            until: lease.until,
            gone,
            unsure: Vec::new(),
            missed: Vec::new(),
            waiting,
            strays: strays.collect(),
        })
    }

    pub(crate) fn join(&mut self, claim: &Claim, patience: Patience) -> Result<Place> {
        let lease = self.leases.get_mut(&claim.id.session).ok_or_else(Error::session_over)?;
        if lease.is_void(claim.id.number) {
            return Ok(Place::Gone);
        }
        if lease.claims.get(&claim.id.number).is_some() {
            return self.stands(claim);
        }
        let names = &mut self.spaces.get_mut(lease.space).ok_or_else(Error::session_over)?.names;
        let index = match names.get(&claim.name) {
            Some(index) => *index,
            None => {
                let line = Line::new(claim.name.clone(), claim.kind, claim.capacity);
                line.admit(claim.kind, claim.weight)?;
                let index = self.lines.insert(line);
                names.insert(claim.name.clone(), index);
                index
            }
        };
        let line = self.lines.get_mut(index).ok_or_else(|| absent(claim))?;
        line.admit(claim.kind, claim.weight)?;
        let fits = line.fits(claim.weight);
        if !fits && patience == Patience::Now {
            return Ok(Place::Refused);
        }
        let token = fits.then(|| next_token(&mut self.last_token));
        let order = line.push(Standing { id: claim.id, weight: claim.weight, since: self.now, token });
        lease.claims.insert(claim.id.number, Spot { line: index, order });
        match token.map(|token| line.grant(token)) {
            Some(grant) => Ok(Place::Held { grant, until: lease.until }),
            None => self.stands(claim),
        }
    }

    pub(crate) fn look(&self, id: SessionId, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let lease = self.lease(id)?;
        let mut sight = Sight { held: Vec::new(), gone: Vec::new(), look_in: lease.ttl };
        for id in waiting {
            let Some((line, standing)) = self.find(lease, name, id.number) else {
                sight.gone.push(*id);
                continue;
            };
            sight.held.extend(standing.token.map(|token| (*id, line.grant(token))));
            sight.look_in = self.look_in(line);
        }
        Ok(sight)
    }

    pub(crate) fn leave(&mut self, caller: SessionId, name: &Name, id: ClaimId, how: Leave) -> Result<Left> {
        let is_eviction = caller != id.session;
        if is_eviction && !self.are_neighbours(caller, id.session)? {
            return Ok(Left::Absent);
        }
        let owner = self.leases.get_mut(&id.session).ok_or_else(Error::session_over)?;
        let stands_elsewhere = |spot: &Spot| self.lines.get(spot.line).is_none_or(|line| line.name() != name);
        if owner.claims.get(&id.number).is_some_and(stands_elsewhere) {
            return Ok(Left::Absent);
        }
        if how == Leave::Void {
            owner.make_void(id.number, self.now);
        }
        let Some(&Spot { line: index, order }) = owner.claims.get(&id.number) else {
            return Ok(Left::Absent);
        };
        let Some(line) = self.lines.get_mut(index).filter(|line| line.name() == name) else {
            return Ok(Left::Absent);
        };
        if seeded!("void_leave_keeps_a_grant")
            && how == Leave::Void
            && line.at(order).is_some_and(|standing| standing.token.is_some())
        {
            return Ok(Left::Held);
        }
        owner.claims.remove(&id.number);
        if is_eviction {
            self.signals.add(&owner.signals, Signal::Gone(id));
        }
        let space = owner.space;
        let left = line.remove(order);
        self.settle(space, index);
        Ok(left)
    }

    pub(crate) fn lighten(&mut self, claim: &Claim, weight: Weight) -> Result<()> {
        let lease = self.lease(claim.id.session)?;
        let Some(&Spot { line: index, order }) = lease.claims.get(&claim.id.number) else {
            return Err(absent(claim));
        };
        let space = lease.space;
        let line = self.lines.get_mut(index).ok_or_else(|| absent(claim))?;
        line.lighten(order, weight)?;
        if !seeded!("lighten_grants_nobody") {
            self.settle(space, index);
        }
        Ok(())
    }

    pub(crate) fn resize(&mut self, id: SessionId, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let space = self.lease(id)?.space;
        let index = self.index(space, name);
        let Some((line, index)) = index.and_then(|index| Some((self.lines.get_mut(index)?, index))) else {
            return Ok(());
        };
        line.resize(from, to)?;
        self.settle(space, index);
        Ok(())
    }

    pub(crate) fn line(&self, id: SessionId, name: &Name) -> Result<tidelock_core::Line> {
        let index = self.index(self.lease(id)?.space, name);
        let Some(line) = index.and_then(|index| self.lines.get(index)) else {
            return Ok(tidelock_core::Line::default());
        };
        let infos = line.all().map(|standing| self.claim_info(standing));
        Ok(tidelock_core::Line::new(line.kind(), line.capacity(), infos.collect()))
    }

    pub(crate) fn names(&self, id: SessionId, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let start = match after.map(Name::as_str) {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let space = self.spaces.get(self.lease(id)?.space).ok_or_else(Error::session_over)?;
        let names = space.names.from::<str>(start).map(|(name, _)| name);
        let page = names.take_while(|name| name.starts_with(prefix)).take(PAGE);
        Ok(page.cloned().collect())
    }

    fn is_anybody_due(&self) -> bool {
        self.ends.first().is_some_and(|(until, _)| *until <= self.now)
    }

    /// One session more uses this namespace.
    fn enter(&mut self, namespace: &Arc<str>) -> usize {
        let index = *self.namespaces.entry(namespace.clone()).or_insert_with(|| {
            self.spaces.insert(Space { namespace: namespace.clone(), sessions: 0, names: SmallMap::new() })
        });
        if let Some(space) = self.spaces.get_mut(index) {
            space.sessions += 1;
        }
        index
    }

    /// One session less uses this namespace; its claims have left.
    fn depart(&mut self, index: usize) {
        let Some(space) = self.spaces.get_mut(index) else {
            return;
        };
        space.sessions -= 1;
        if space.sessions == 0 {
            self.namespaces.remove(&space.namespace);
            self.spaces.remove(index);
        }
    }

    /// Restarts a session's lifetime.
    fn extend(&mut self, id: SessionId) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        if !seeded!("renewal_keeps_the_old_end") {
            self.ends.remove(&(lease.until, id));
        }
        lease.until = self.now + lease.ttl;
        self.ends.insert((lease.until, id));
    }

    fn take_lease(&mut self, id: SessionId) -> Option<Lease> {
        let lease = self.leases.remove(&id)?;
        self.ends.remove(&(lease.until, id));
        Some(lease)
    }

    /// Takes every claim of these sessions out, and only then grants.
    fn end(&mut self, ended: &[Lease]) {
        let mut touched = BTreeSet::new();
        for lease in ended {
            for (_, spot) in lease.claims.iter() {
                self.lines.get_mut(spot.line).map(|line| line.remove(spot.order));
                touched.insert((lease.space, spot.line));
            }
        }
        for (space, line) in touched {
            self.settle(space, line);
        }
        for lease in ended {
            self.depart(lease.space);
        }
    }

    /// Grants the claims that fit now and tells their clients; forgets the line if it is empty.
    fn settle(&mut self, space: usize, index: usize) {
        let Some(line) = self.lines.get_mut(index) else {
            return;
        };
        while let Some((id, grant)) = line.grant_next(|| next_token(&mut self.last_token)) {
            if let Some(lease) = self.leases.get(&id.session)
                && !seeded!("grant_is_told_to_nobody")
            {
                self.signals.add(&lease.signals, Signal::Held(id, grant));
            }
            if seeded!("one_grant_at_a_time") {
                break;
            }
        }
        if line.is_empty() {
            if let Some(space) = self.spaces.get_mut(space) {
                space.names.remove(line.name());
            }
            self.lines.remove(index);
        }
    }

    fn lease(&self, id: SessionId) -> Result<&Lease> {
        self.leases.get(&id).ok_or_else(Error::session_over)
    }

    /// The index of a name's line, if any claim stands in it.
    fn index(&self, space: usize, name: &Name) -> Option<usize> {
        self.spaces.get(space)?.names.get(name).copied()
    }

    /// A claim of this lease, if it stands in the line of that name.
    fn find(&self, lease: &Lease, name: &Name, number: u64) -> Option<(&Line, &Standing)> {
        let spot = lease.claims.get(&number)?;
        let line = self.lines.get(spot.line).filter(|line| line.name() == name)?;
        Some((line, line.at(spot.order)?))
    }

    /// Whether two sessions use the same namespace. One that is over has no neighbours.
    fn are_neighbours(&self, caller: SessionId, other: SessionId) -> Result<bool> {
        let space = self.lease(caller)?.space;
        Ok(self.leases.get(&other).is_some_and(|other| other.space == space))
    }

    /// The place of a claim that joined before.
    fn stands(&self, claim: &Claim) -> Result<Place> {
        let lease = self.lease(claim.id.session)?;
        let Some((line, standing)) = self.find(lease, &claim.name, claim.id.number) else {
            let wrong = format!("claim {} cannot join {:?}: it stands in another line", claim.id, claim.name);
            return Err(Error::new(ErrorKind::Protocol, wrong));
        };
        let until = lease.until;
        Ok(match standing.token {
            Some(token) => Place::Held { grant: line.grant(token), until },
            None => Place::Waiting { until, look_in: self.look_in(line) },
        })
    }

    /// How long until a lifetime ends that this line's waiters depend on. With many holders it is the first end of
    /// any lease in the store: that is never too late, and never walks a crowd.
    fn look_in(&self, line: &Line) -> Duration {
        let until = |holder: &Standing| self.leases.get(&holder.id.session).map(|lease| lease.until);
        let first = match line.holders().nth(FEW) {
            None => line.holders().filter_map(until).min(),
            Some(_) => self.first_end_after(self.now),
        };
        first.unwrap_or(self.now).since(self.now) + HAIR
    }

    fn claim_info(&self, standing: &Standing) -> ClaimInfo {
        let lease = self.leases.get(&standing.id.session);
        let label = lease.map_or_else(String::new, |lease| (*lease.label).to_owned());
        let since = self.now.since(standing.since);
        ClaimInfo::new(standing.id, standing.weight, standing.token, label, Some(since))
    }
}

/// One counter for all lines, so tokens grow although lines come and go.
fn next_token(last: &mut u64) -> Token {
    *last += 1;
    Token::from_order(*last).expect("2^48 grants, at a million a second, take nine years")
}

fn absent(claim: &Claim) -> Error {
    Error::not_in_line(claim.id)
}
