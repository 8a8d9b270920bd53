//! Cleaning up: unused names, and what dead clients have left, in every namespace of the database. Whoever comes along
//! does it, a few rows at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_core::SessionId;

use crate::link::Answer;
use crate::open_session::OpenSession;
use crate::request::Action;
use crate::sql::{self, Key, list, put};
use crate::trouble::Said;

/// How long an unused name is remembered, with its newest token.
const UNUSED: Duration = Duration::from_secs(3_600);
/// How long a client has to be dead before somebody looks for everything that it has left.
const DEAD: Duration = Duration::from_secs(60);
/// How many names are read at a time.
const FEW: usize = 200;
/// In front of the statements of a sweep, for whoever counts statements or reads the server's list of processes.
const NOTE: &str = "/* tidelock sweeps */ ";
/// How many lines are looked after at a time.
const FEW_LINES: usize = 20;
/// How many batches are swept behind a close at most: each has ten dead clients.
const LAST_BATCHES: usize = 10;

impl OpenSession {
    /// Called with each renewal. A client that did nothing since then leaves it to others.
    pub(crate) fn sweep_now_and_then(self: &Arc<Self>) {
        if self.requests.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        self.meanwhile(|session| async move {
            if let Err(said) = session.sweep().await {
                let error = session.trouble(&said);
                tidelock_core::backend::unharmed(
                    || tracing::debug!(%error, "cleaning up did not succeed; the next client does it"),
                );
            }
        });
    }

    /// Behind the end of the session, which nothing here needs: what was begun to tidy, and what dead clients have left
    /// elsewhere.
    pub(crate) async fn clean_up(self: &Arc<Self>) {
        self.all_tidied().await;
        self.sweep_for_the_last_time().await;
        for link in [&self.lanes.keepers.link, &self.looks, &self.beats, &self.bell] {
            link.close().await;
        }
    }

    /// If this client has met any of the dead. Whoever lives on sweeps with its next renewal, but perhaps nobody does.
    async fn sweep_for_the_last_time(self: &Arc<Self>) {
        for _ in 0..LAST_BATCHES {
            if !self.has_met_dead.swap(false, Ordering::Relaxed) || self.sweep_clients().await.is_err() {
                break; // the next client does it
            }
        }
    }

    /// One batch of each kind.
    pub(crate) async fn sweep(self: &Arc<Self>) -> Result<(), Said> {
        self.has_met_dead.store(false, Ordering::Relaxed);
        let names = self.sweep_names().await;
        self.sweep_clients().await.and(names)
    }

    async fn sweep_names(self: &Arc<Self>) -> Result<(), Said> {
        let age = micros(UNUSED);
        let mut text = String::new();
        put(
            &mut text,
            sql::FIND_SWEPT,
            &[("age", &micros(DEAD)), ("unused", &age), ("after", &self.sweep_from.key()), ("most", &FEW)],
        );
        let found = self.looks.ask(&text).await?;
        let unused: Vec<Key> =
            found.rows.iter().filter(|row| row.is(2)).map(|row| Key::of_bytes(row.bytes(1))).collect();
        if !unused.is_empty() {
            let mut text = NOTE.to_owned();
            put(&mut text, sql::DROP_IDLE, &[("age", &age), ("names", &list(&unused))]);
            self.looks.ask(&text).await?;
        }
        let lines = found.rows.iter().filter(|row| row.is(3)).take(FEW_LINES);
        let swept = self.sweep_lines(lines.map(|row| row.bytes(1))).await;
        let last = found.rows.last().filter(|_| found.rows.len() == FEW);
        self.sweep_from.go_on(last.map(|row| row.bytes(1).to_vec()));
        swept
    }

    async fn sweep_clients(self: &Arc<Self>) -> Result<(), Said> {
        let mut text = String::new();
        put(&mut text, sql::FIND_DEAD, &[("age", &micros(DEAD)), ("most", &FEW_LINES)]);
        let found: Answer = self.looks.ask(&text).await?;
        let lines = found.rows.iter().filter(|row| !row.is_null(2));
        let swept = self.sweep_lines(lines.map(|row| row.bytes(2))).await;
        for row in &found.rows {
            if row.is_null(2) {
                // However young they are: no join of a dead client takes effect.
                self.drop_claims(SessionId::from_bits(row.number(1)), Duration::ZERO, true).await?;
                let mut text = NOTE.to_owned();
                put(&mut text, sql::DROP_DEAD, &[("session", &row.number(1)), ("age", &micros(DEAD))]);
                self.looks.ask(&text).await?;
                self.has_met_dead.store(true, Ordering::Relaxed);
            }
        }
        swept
    }

    /// One that cannot be cleaned up keeps no other from it.
    async fn sweep_lines<'a>(self: &Arc<Self>, names: impl Iterator<Item = &'a [u8]>) -> Result<(), Said> {
        let mut swept = Ok(());
        for name in names {
            match self.sweep_line(name).await {
                Err(said) if said.number().is_none() => return Err(said), // the server is away
                Err(said) => swept = Err(said),
                Ok(()) => {}
            }
        }
        swept
    }

    /// Takes the dead out of a line of any namespace. What is granted is told by the bell.
    async fn sweep_line(self: &Arc<Self>, name: &[u8]) -> Result<(), Said> {
        let mut text = NOTE.to_owned();
        put(&mut text, sql::DROP_VOID, &[("name", &Key::of_bytes(name))]);
        self.looks.ask(&text).await?;
        if let Some(name) = self.caller.namespace.name(name) {
            let is_empty = self.tidied(&name).await.is_ok_and(|read| read.is_empty_in_rows());
            if is_empty {
                let _ = self.gather(&name, Action::Bury(Vec::new())).await; // the next client does it
            }
            return Ok(());
        }
        let key = Key::of_bytes(name);
        let read = self.read_key(&key, NOTE).await?;
        let dead = self.dead_at(&key, &read, NOTE).await?;
        self.looks.ask(&[NOTE, &self.caller.burial(&key, dead)].concat()).await.map(drop)
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 2)
}
