//! The server, for one test at a time. A test's changes to its settings are undone when the test ends, however it ends.

use redis::Connection;
use tokio::sync::{Mutex, MutexGuard};

use super::{command, url};

const TURNED_BACK: [&str; 9] = [
    "CONFIG SET maxclients 10000",
    "CONFIG SET maxmemory 0",
    "CONFIG SET maxmemory-policy noeviction",
    "CONFIG SET requirepass ",
    "REPLICAOF NO ONE",
    "ACL DELUSER app",
    "ACL LOG RESET",
    "FLUSHDB",
    "SCRIPT FLUSH",
];

static ONE: Mutex<()> = Mutex::const_new(());

/// As long as this lives, no other test of this program has the server.
pub(crate) struct Alone {
    server: Connection,
    _turn: MutexGuard<'static, ()>,
}

impl Alone {
    pub(crate) async fn new() -> Self {
        let turn = ONE.lock().await;
        let server = redis::Client::open(url()).unwrap().get_connection().unwrap();
        let mut alone = Self { server, _turn: turn };
        for words in TURNED_BACK {
            alone.ask(words); // a killed program may have left something
        }
        alone
    }

    /// Sends one command, as people type it. Its words must not contain blanks.
    pub(crate) fn ask(&mut self, words: &str) -> redis::Value {
        command(words).query(&mut self.server).unwrap_or_else(|error| panic!("{words}: {error}"))
    }

    /// All keys with their contents, as dumped by the server.
    pub(crate) fn contents(&mut self) -> Vec<(String, Vec<u8>)> {
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut self.server).unwrap();
        keys.sort();
        let dump = |key: String| {
            let dumped: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut self.server).unwrap();
            (key, dumped)
        };
        keys.into_iter().map(dump).collect()
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        for words in TURNED_BACK {
            if let Err(error) = command(words).query::<redis::Value>(&mut self.server) {
                eprintln!("{words}: {error}");
            }
        }
    }
}
