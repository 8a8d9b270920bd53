//! Everything the store knows, and what each request does to it: the rule of `tidelock-model`, made quick.
//!
//! Lines are kept by namespace and name, leases by session, and the ends of leases in order of time. Every request
//! first ends the leases that are due: all of their claims leave before anyone is granted, so nobody dead is. Then
//! it does its work, and settles the line it touched: whoever fits is granted, and an empty line is forgotten.
//! Whatever others must hear of it is put into `news`, to be told when the store's lock is let go.

use std::collections::btree_map::{Entry, OccupiedEntry};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use tidelock::{
    Claim, ClaimId, Error, ErrorKind, Leave, Left, Moment, Name, Options, Patience, Place, Renewal, Result,
    SessionId, Sight, Signals, Stander, Token, Weight,
};

use crate::lease::{Lease, Spot};
use crate::line::{Line, Standing};
use crate::news::{News, Word};

/// How many names one page lists.
const PAGE: usize = 100;
/// Of how many holders the lifetimes are looked at one by one.
const FEW: usize = 8;
/// A look this long after a lifetime's end surely finds it over.
const HAIR: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct Table {
    now: Moment,
    last_token: u64,
    leases: BTreeMap<SessionId, Lease>,
    ends: BTreeSet<(Moment, SessionId)>,
    spaces: BTreeMap<Arc<str>, Space>,
    news: News,
}

/// One namespace; it lasts as long as a session uses it.
#[derive(Debug, Default)]
struct Space {
    sessions: usize,
    lines: BTreeMap<Name, Line>,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self {
            now: Moment::START,
            last_token: 0,
            leases: BTreeMap::new(),
            ends: BTreeSet::new(),
            spaces: BTreeMap::new(),
            news: News::default(),
        }
    }

    /// What there is to tell since it was last asked.
    pub(crate) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// It is `now`: ends every lease that is due.
    pub(crate) fn expire(&mut self, now: Moment) {
        self.now = self.now.max(now);
        let is_due = |table: &Self| table.ends.first().is_some_and(|(until, _)| *until <= table.now);
        if !is_due(self) {
            return;
        }
        let mut due = Vec::new();
        while is_due(self) {
            due.extend(self.ends.pop_first().map(|(_, id)| id));
        }
        self.lose(&due);
    }

    /// Ends these sessions as if their time were over: they are told.
    pub(crate) fn lose(&mut self, sessions: &[SessionId]) {
        let ended: Vec<Lease> = sessions.iter().filter_map(|id| self.take_lease(*id)).collect();
        for lease in &ended {
            self.news.add(&lease.signals, Word::Over);
        }
        self.end(&ended);
    }

    /// The open sessions, with the labels of their clients.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (SessionId, &str)> {
        self.leases.iter().map(|(id, lease)| (*id, &*lease.label))
    }

    /// Opens a session, or renews it if it is open.
    pub(crate) fn open(&mut self, id: SessionId, options: &Options, signals: Arc<dyn Signals>) -> Result<()> {
        let lease = self.leases.entry(id).or_insert_with(|| {
            self.spaces.entry(options.namespace.clone()).or_default().sessions += 1;
            Lease::new(options, signals.clone())
        });
        lease.signals = signals;
        self.extend(id);
        Ok(())
    }

    /// Ends a session at its own wish: it need not be told.
    pub(crate) fn close(&mut self, id: SessionId) -> Result<()> {
        let ended = self.take_lease(id);
        self.end(ended.as_slice());
        Ok(())
    }

    pub(crate) fn renew(&mut self, id: SessionId, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        self.extend(id);
        let now = self.now;
        let lease = self.leases.get_mut(&id).ok_or_else(over)?;
        lease.forget_void(now);
        let (mut gone, mut known) = (Vec::new(), BTreeSet::new());
        for (name, ids) in standing {
            for id in ids {
                match lease.spot(name, id.number) {
                    Some(_) => drop(known.insert(id.number)),
                    None => gone.push(*id),
                }
            }
        }
        let stray = |(number, spot): (&u64, &Spot)| {
            let claim = ClaimId {
                session: id,
                number: *number,
            };
            (!known.contains(number)).then(|| (spot.name.clone(), claim))
        };
        let strays = lease.claims.iter().filter_map(stray).collect();
        Ok(Renewal {
            until: lease.until,
            gone,
            strays,
        })
    }

    pub(crate) fn join(&mut self, claim: &Claim, patience: Patience) -> Result<Place> {
        let lease = self.leases.get_mut(&claim.id.session).ok_or_else(over)?;
        if lease.is_void(claim.id.number) {
            return Ok(Place::Gone);
        }
        let vacant = match lease.claims.entry(claim.id.number) {
            Entry::Vacant(vacant) => vacant,
            Entry::Occupied(_) => return self.stands(claim),
        };
        let space = self.spaces.get_mut(&lease.namespace).ok_or_else(over)?;
        let line = match space.lines.entry(claim.name.clone()) {
            Entry::Occupied(line) => {
                line.get().admit(claim.kind, claim.weight)?;
                line.into_mut()
            }
            Entry::Vacant(vacant) => {
                let line = Line::new(claim.kind, claim.capacity);
                line.admit(claim.kind, claim.weight)?;
                vacant.insert(line)
            }
        };
        let fits = line.fits(claim.weight);
        if !fits && patience == Patience::Now {
            return Ok(Place::Refused);
        }
        let token = fits.then(|| next_token(&mut self.last_token));
        let order = line.push(Standing {
            id: claim.id,
            weight: claim.weight,
            since: self.now,
            token,
        });
        vacant.insert(Spot {
            name: claim.name.clone(),
            order,
        });
        match token {
            Some(token) => Ok(Place::Held {
                grant: line.grant(token),
                until: lease.until,
            }),
            None => self.stands(claim),
        }
    }

    pub(crate) fn look(&self, id: SessionId, name: &Name, waiting: &[ClaimId]) -> Result<Sight> {
        let lease = self.leases.get(&id).ok_or_else(over)?;
        let Some(line) = self.space_of(id)?.lines.get(name) else {
            return Ok(Sight {
                held: Vec::new(),
                gone: waiting.to_vec(),
                look_in: lease.ttl,
            });
        };
        let (mut held, mut gone) = (Vec::new(), Vec::new());
        for id in waiting {
            match lease.spot(name, id.number).and_then(|spot| line.at(spot.order)) {
                Some(standing) => held.extend(standing.token.map(|token| (*id, line.grant(token)))),
                None => gone.push(*id),
            }
        }
        Ok(Sight {
            held,
            gone,
            look_in: self.look_in(line),
        })
    }

    pub(crate) fn leave(&mut self, caller: SessionId, name: &Name, id: ClaimId, how: Leave) -> Result<Left> {
        let is_eviction = caller != id.session;
        if is_eviction && !self.are_neighbours(caller, id.session)? {
            return Ok(Left::Absent);
        }
        let owner = self.leases.get_mut(&id.session).ok_or_else(over)?;
        if how == Leave::Void {
            owner.make_void(id.number, self.now);
        }
        let Entry::Occupied(spot) = owner.claims.entry(id.number) else {
            return Ok(Left::Absent);
        };
        if spot.get().name != *name {
            return Ok(Left::Absent);
        }
        let order = spot.remove().order;
        if is_eviction {
            self.news.add(&owner.signals, Word::Gone(id));
        }
        let Some(space) = self.spaces.get_mut(&owner.namespace) else {
            return Ok(Left::Absent);
        };
        let Entry::Occupied(mut line) = space.lines.entry(name.clone()) else {
            return Ok(Left::Absent);
        };
        let left = line.get_mut().remove(order);
        settle(line, &self.leases, &mut self.last_token, &mut self.news);
        Ok(left)
    }

    pub(crate) fn lighten(&mut self, claim: &Claim, weight: Weight) -> Result<()> {
        let lease = self.leases.get(&claim.id.session).ok_or_else(over)?;
        let spot = lease.spot(&claim.name, claim.id.number);
        let space = self.spaces.get_mut(&lease.namespace);
        let Some((space, spot)) = space.zip(spot) else {
            return Err(absent(claim));
        };
        let Entry::Occupied(mut line) = space.lines.entry(claim.name.clone()) else {
            return Err(absent(claim));
        };
        line.get_mut().lighten(spot.order, weight)?;
        settle(line, &self.leases, &mut self.last_token, &mut self.news);
        Ok(())
    }

    pub(crate) fn resize(&mut self, id: SessionId, name: &Name, from: Weight, to: Weight) -> Result<()> {
        let lease = self.leases.get(&id).ok_or_else(over)?;
        let Some(space) = self.spaces.get_mut(&lease.namespace) else {
            return Ok(());
        };
        let Entry::Occupied(mut line) = space.lines.entry(name.clone()) else {
            return Ok(());
        };
        line.get_mut().resize(from, to)?;
        settle(line, &self.leases, &mut self.last_token, &mut self.news);
        Ok(())
    }

    pub(crate) fn line(&self, id: SessionId, name: &Name) -> Result<tidelock::Line> {
        let Some(line) = self.space_of(id)?.lines.get(name) else {
            return Ok(tidelock::Line::default());
        };
        let stander = |standing: &Standing| {
            let Standing {
                id,
                weight,
                since,
                token,
            } = *standing;
            let label = self.leases.get(&id.session).map_or("", |lease| &lease.label);
            Stander::new(id, weight, token, label.to_owned(), self.now.since(since))
        };
        Ok(tidelock::Line::new(
            line.kind(),
            line.capacity(),
            line.all().map(stander).collect(),
        ))
    }

    pub(crate) fn names(&self, id: SessionId, prefix: &str, after: Option<&Name>) -> Result<Vec<Name>> {
        let start = match after.map(Name::as_str) {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let lines = self
            .space_of(id)?
            .lines
            .range::<str, _>((start, Bound::Unbounded));
        let names = lines
            .map(|(name, _)| name)
            .take_while(|name| name.starts_with(prefix));
        Ok(names.take(PAGE).cloned().collect())
    }

    /// Starts a session's lifetime anew.
    fn extend(&mut self, id: SessionId) {
        let Some(lease) = self.leases.get_mut(&id) else {
            return;
        };
        self.ends.remove(&(lease.until, id));
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
        for lease in ended {
            let Some(space) = self.spaces.get_mut(&lease.namespace) else {
                continue;
            };
            for spot in lease.claims.values() {
                space
                    .lines
                    .get_mut(&spot.name)
                    .map(|line| line.remove(spot.order));
            }
        }
        for lease in ended {
            let Some(space) = self.spaces.get_mut(&lease.namespace) else {
                continue;
            };
            for spot in lease.claims.values() {
                let Entry::Occupied(line) = space.lines.entry(spot.name.clone()) else {
                    continue;
                };
                settle(line, &self.leases, &mut self.last_token, &mut self.news);
            }
            space.sessions -= 1;
            if space.sessions == 0 {
                self.spaces.remove(&lease.namespace);
            }
        }
    }

    /// Where a claim that joined before stands.
    fn stands(&self, claim: &Claim) -> Result<Place> {
        let lease = self.leases.get(&claim.id.session).ok_or_else(over)?;
        let spot = lease.spot(&claim.name, claim.id.number);
        let line = self.space_of(claim.id.session)?.lines.get(&claim.name);
        let Some((line, spot)) = line.zip(spot) else {
            let wrong = format!("claim {} stands in another line already", claim.id);
            return Err(Error::new(ErrorKind::Protocol, wrong));
        };
        let standing = line.at(spot.order).ok_or_else(|| absent(claim))?;
        let until = lease.until;
        Ok(match standing.token {
            Some(token) => Place::Held {
                grant: line.grant(token),
                until,
            },
            None => Place::Waiting {
                until,
                look_in: self.look_in(line),
            },
        })
    }

    /// In how long a lifetime ends that this line's waiters depend on. For a crowd of holders it may be anybody's:
    /// never too late, and no line is ever walked.
    fn look_in(&self, line: &Line) -> Duration {
        let until = |holder: &Standing| self.leases.get(&holder.id.session).map(|lease| lease.until);
        let first = match line.holders().nth(FEW) {
            None => line.holders().filter_map(until).min(),
            Some(_) => self.ends.first().map(|(until, _)| *until),
        };
        first.unwrap_or(self.now).since(self.now) + HAIR
    }

    /// Whether two sessions use the same namespace. One that is over has no neighbours.
    fn are_neighbours(&self, caller: SessionId, other: SessionId) -> Result<bool> {
        let caller = self.leases.get(&caller).ok_or_else(over)?;
        Ok(self
            .leases
            .get(&other)
            .is_some_and(|other| other.namespace == caller.namespace))
    }

    fn space_of(&self, id: SessionId) -> Result<&Space> {
        let lease = self.leases.get(&id).ok_or_else(over)?;
        self.spaces.get(&lease.namespace).ok_or_else(over)
    }
}

/// Grants whoever fits now and tells them; forgets the line when nobody stands in it.
fn settle(
    mut line: OccupiedEntry<'_, Name, Line>,
    leases: &BTreeMap<SessionId, Lease>,
    last_token: &mut u64,
    news: &mut News,
) {
    if line.get().is_empty() {
        line.remove();
        return;
    }
    while let Some((id, grant)) = line.get_mut().grant_next(|| next_token(last_token)) {
        if let Some(lease) = leases.get(&id.session) {
            news.add(&lease.signals, Word::Held(id, grant));
        }
    }
}

/// One counter for all lines: tokens grow although lines come and go.
fn next_token(last: &mut u64) -> Token {
    *last += 1;
    Token::from_order(*last).expect("2^48 grants, at a million a second, take nine years")
}

fn over() -> Error {
    Error::new(
        ErrorKind::Lost,
        "its session is over: it was not renewed in time, or was closed",
    )
}

fn absent(claim: &Claim) -> Error {
    Error::new(
        ErrorKind::Conflict,
        format!("claim {} is not in line any more", claim.id),
    )
}
