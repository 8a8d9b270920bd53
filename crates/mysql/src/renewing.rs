//! Renewals: one row is all that keeps a client's claims alive, however many there are.
//!
//! The same request reads which of the claims stand. The names with a single claim are read first: a claim that moves
//! from that row to one of its own in between is found there, and none moves back.
//!
//! Thousands of names need several texts. The first one renews the row, and that counts whatever becomes of the others. It
//! reads the claims in rows too: a client whose last text is always late would never hear of them.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tidelock_core::backend::{Moment, Renewal};
use tidelock_core::{ClaimId, Error, Name, Result, SessionId};

use crate::link::Row;
use crate::open_session::OpenSession;
use crate::sql::{self, id, list, put};
use crate::trouble::Said;
use crate::waiters;
use crate::which_server::WhichServer;

/// How many names fit into one text: the server refuses one of 16 MB, and a name can be 600 bytes, in two digits each.
const NAMES: usize = 5_000;

impl OpenSession {
    pub(crate) async fn renew(self: &Arc<Self>, standing: &[(Name, Vec<ClaimId>)]) -> Result<Renewal> {
        let sent = self.clock.now();
        let doubtful = self.own_claims.doubtful();
        let (first, more) = self.renewal(standing, &doubtful);
        let mut answer = self.beats.ask(&first).await.map_err(|said| self.trouble(&said))?;
        if answer.affected.first().is_none_or(|found| *found == 0) {
            return Err(Error::session_over());
        }
        let until = sent + self.ttl;
        self.lives_until(until);
        // Core gives up a renewal a little later, and it would count for nothing.
        let late = sent + self.within.min(self.ttl / 3) / 4 * 3;
        let (is_whole, rest) = self.all_read(&more, late).await;
        if is_whole && !more.is_empty() {
            answer.rows.retain(|row| row.tag() != b'C'); // they were read again, and some may have left meanwhile
        }
        answer.rows.extend(rest);
        self.own_claims.forget(sent);
        if is_whole {
            let found = answer.rows.iter().filter(|row| row.tag() == b'I');
            let found: HashSet<Name> =
                found.filter_map(|row| self.caller.namespace.name(row.bytes(1))).collect();
            self.own_claims.are_without(doubtful.into_iter().filter(|name| !found.contains(name)));
        }
        if answer.rows.iter().any(|row| row.tag() == b'C' && row.number(3) == 2) {
            self.forget_void();
        }
        if WhichServer::of(&answer.rows).is_some_and(|server| self.is_renewed_by_another(server)) {
            self.beats.ends_all_others(); // some may lead to the server of before, and that one may go on writing
            self.signals.look_everywhere();
        }
        self.sweep_now_and_then();
        let renewal = self.compared(standing, &answer.rows, until);
        if !is_whole {
            return Ok(without_all_rows(renewal, standing));
        }
        for gone in &renewal.gone {
            self.own_claims.waits_no_more(gone.number); // the watcher would listen for it
        }
        Ok(renewal)
    }

    /// Whether all of these texts were answered until it was late, and with which rows.
    async fn all_read(&self, texts: &[String], late: Moment) -> (bool, Vec<Row>) {
        let mut rows = Vec::new();
        for text in texts {
            match self.beats.ask_until(text, late).await {
                Ok(part) => rows.extend(part.rows),
                Err(_) => return (false, rows),
            }
        }
        (true, rows)
    }

    /// Whether this is another server than the one of before.
    fn is_renewed_by_another(&self, server: WhichServer) -> bool {
        let mut last = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = *last != server;
        *last = server;
        is_another
    }

    /// The first text, and those to send behind it: nearly always none.
    fn renewal(&self, standing: &[(Name, Vec<ClaimId>)], doubtful: &[Name]) -> (String, Vec<String>) {
        let (me, padded) = (id(self.id), waiters::padded(self.id));
        let (mut texts, mut text) = (Vec::new(), String::new());
        put(&mut text, sql::RENEW, &[("me", &me)]);
        put(&mut text, sql::WHICH_SERVER, &[]);
        let names: Vec<&Name> = standing.iter().map(|(name, _)| name).chain(doubtful).collect();
        for (at, names) in names.chunks(NAMES).enumerate() {
            if at == 1 {
                put(&mut text, sql::OWN_CLAIMS, &[("me", &me)]);
            }
            if at > 0 {
                texts.push(std::mem::take(&mut text));
            }
            let names = list(names.iter().map(|name| self.caller.key(name)));
            put(&mut text, sql::ONLY_HOLDER, &[("me", &me), ("padded", &padded), ("names", &names)]);
        }
        put(&mut text, sql::OWN_CLAIMS, &[("me", &me)]);
        texts.push(text);
        (texts.remove(0), texts)
    }

    fn compared(&self, standing: &[(Name, Vec<ClaimId>)], rows: &[Row], until: Moment) -> Renewal {
        let (mut stands, mut waiting, mut found) = (HashSet::new(), Vec::new(), Vec::new());
        for (name, claim, waits) in rows.iter().flat_map(|row| self.standing(row)) {
            if !stands.insert(claim) {
                continue;
            }
            if waits {
                waiting.push(claim);
            }
            found.push((name, claim));
        }
        let named: HashSet<ClaimId> = standing.iter().flat_map(|(_, claims)| claims).copied().collect();
        let gone = named.iter().filter(|claim| !stands.contains(claim)).copied().collect();
        waiting.retain(|claim| named.contains(claim));
        let strays = found
            .into_iter()
            .filter(|(_, claim)| !named.contains(claim) && !self.own_claims.is_leaving(*claim))
            .filter(|(_, claim)| !self.own_claims.is_inside(claim.number))
            .filter_map(|(key, claim)| Some((self.caller.namespace.name(key)?, claim)))
            .collect();
        Renewal { until, gone, unsure: Vec::new(), missed: Vec::new(), waiting, strays }
    }

    /// The claims of ours in a row: the name, the claim, and whether it waits.
    fn standing<'a>(&self, row: &'a Row) -> Vec<(&'a [u8], ClaimId, bool)> {
        let (name, own) = (row.bytes(1), ClaimId { session: self.id, number: row.number(2) });
        match row.tag() {
            b'I' => {
                let waiting = waiters::read(row.bytes(3)).map(|(claim, _)| claim);
                let waiting = waiting.filter(|claim| claim.session == self.id);
                let holder = (!row.is_null(2)).then_some((name, own, false));
                holder.into_iter().chain(waiting.map(|claim| (name, claim, true))).collect()
            }
            b'C' if row.number(3) < 2 => vec![(name, own, row.number(3) == 1)],
            _ => Vec::new(),
        }
    }

    /// Deletes the claims of a session that are void, and those that wait unless `only_void`, if they are that old.
    pub(crate) async fn drop_claims(
        &self,
        session: SessionId,
        age: Duration,
        only_void: bool,
    ) -> Result<(), Said> {
        let age = u64::try_from(age.as_micros()).unwrap_or(u64::MAX >> 2);
        let mut text = String::new();
        let state = if only_void { 2 } else { 1 };
        put(&mut text, sql::FIND_VOID, &[("session", &id(session)), ("age", &age), ("state", &state)]);
        let found = self.looks.ask(&text).await?;
        for some in found.rows.chunks(NAMES) {
            let numbers = list(some.iter().map(|row| row.number(1)));
            let mut text = String::new();
            put(
                &mut text,
                sql::DROP_CLAIMS,
                &[("session", &id(session)), ("numbers", &numbers), ("state", &state)],
            );
            self.looks.ask(&text).await?;
        }
        Ok(())
    }

    /// Void claims that no late join can mean any more.
    fn forget_void(self: &Arc<Self>) {
        self.meanwhile(|session| async move {
            // The next renewal tries again.
            let _ = session.drop_claims(session.id, session.ttl * 2, true).await;
        });
    }
}

/// What is left of a renewal that some texts got no answer to: of claims that were not found it is not known that they are
/// gone, and of no line that nothing strays there.
fn without_all_rows(renewal: Renewal, standing: &[(Name, Vec<ClaimId>)]) -> Renewal {
    let lines = standing.iter().filter(|(_, claims)| claims.is_empty()).map(|(name, _)| name.clone());
    Renewal { unsure: renewal.gone, gone: Vec::new(), missed: lines.collect(), ..renewal }
}
