//! Cleaning up: unused names, and what dead clients have left. Whoever comes along does it, a few rows at a time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tidelock_core::{Name, SessionId};

use crate::link::Answer;
use crate::open_session::OpenSession;
use crate::sql::{self, Key, Namespace, list, put};
use crate::trouble::Said;

/// How long an unused name is remembered, with its newest token.
const UNUSED: Duration = Duration::from_secs(3_600);
/// How long a client has to be dead before somebody looks for everything that it has left.
const DEAD: Duration = Duration::from_secs(60);
/// How many rows are read at a time.
const FEW: usize = 200;

/// Where the sweep continues: behind this key.
#[derive(Debug, Default)]
pub(crate) struct Sweep(std::sync::Mutex<Option<Vec<u8>>>);

impl Sweep {
    fn from(&self, namespace: &Namespace) -> Key {
        let place = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        place.as_ref().map_or_else(|| namespace.after(""), |key| Key::of_bytes(key))
    }

    /// The last key of a full page; `None` starts again.
    fn go_on(&self, last: Option<Vec<u8>>) {
        *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = last;
    }
}

impl OpenSession {
    /// Called with each renewal. A client that did nothing since then leaves it to others.
    pub(crate) fn sweep_now_and_then(self: Arc<Self>) {
        if self.requests.swap(0, Ordering::Relaxed) == 0 {
            return;
        }
        let runtime = self.runtime.clone();
        runtime.spawn(async move {
            if let Err(said) = self.sweep().await {
                let error = self.trouble(&said);
                tidelock_core::backend::unharmed(
                    || tracing::debug!(%error, "cleaning up did not succeed; the next client does it"),
                );
            }
        });
    }

    async fn sweep(self: &Arc<Self>) -> Result<(), Said> {
        self.sweep_names().await?;
        self.sweep_clients().await
    }

    async fn sweep_names(self: &Arc<Self>) -> Result<(), Said> {
        let namespace = &self.caller.namespace;
        let age = micros(UNUSED);
        let mut text = String::new();
        put(
            &mut text,
            sql::FIND_SWEPT,
            &[
                ("age", &age),
                ("after", &self.sweep_from.from(namespace)),
                ("end", &namespace.behind("")),
                ("most", &FEW),
            ],
        );
        let found = self.looks.ask(&text).await?;
        let unused: Vec<Key> =
            found.rows.iter().filter(|row| row.is(2)).map(|row| Key::of_bytes(row.bytes(1))).collect();
        if !unused.is_empty() {
            let mut text = String::new();
            put(&mut text, sql::DROP_IDLE, &[("age", &age), ("names", &list(&unused))]);
            self.looks.ask(&text).await?;
        }
        for row in found.rows.iter().filter(|row| row.is(3)) {
            self.tidy(namespace.name(row.bytes(1))).await;
        }
        let last = found.rows.last().filter(|_| found.rows.len() == FEW);
        self.sweep_from.go_on(last.map(|row| row.bytes(1).to_vec()));
        Ok(())
    }

    async fn sweep_clients(self: &Arc<Self>) -> Result<(), Said> {
        let mut text = String::new();
        put(&mut text, sql::FIND_DEAD, &[("age", &micros(DEAD)), ("most", &FEW)]);
        let found: Answer = self.looks.ask(&text).await?;
        for row in &found.rows {
            if row.is_null(2) {
                let mut text = String::new();
                put(&mut text, sql::DROP_DEAD, &[("session", &row.number(1)), ("age", &micros(DEAD))]);
                self.looks.ask(&text).await?;
                self.drop_claims(SessionId::from_bits(row.number(1)), DEAD, true).await?;
            } else {
                self.tidy(self.caller.namespace.name(row.bytes(2))).await;
            }
        }
        Ok(())
    }

    async fn tidy(self: &Arc<Self>, name: Option<Name>) {
        if let Some(name) = name {
            let _ = self.tidied(&name).await; // the next client does it
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX >> 2)
}
