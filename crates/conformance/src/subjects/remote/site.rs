//! One kind of server, as far as the suite needs it: how clients reach it, and what its operator can do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock_core::backend::Backend;
use tidelock_core::{Error, ErrorKind, Result, SessionId};

use super::Control;
use crate::{Ability, Act, Belief, Can, Cost, Counts, Mishap, Seat};

/// A server of one kind, at one URL.
#[async_trait]
pub trait Site: fmt::Debug + Send + Sync + 'static {
    /// The name in reports.
    fn name(&self) -> &str;

    /// The URL of the server.
    fn url(&self) -> &str;

    /// The port if the URL has none.
    fn default_port(&self) -> u16;

    /// The assumptions behind its promises, one sentence each.
    fn assumptions(&self) -> Vec<String>;

    /// What this kind of server can do, or have done to it, wherever it runs.
    fn can(&self, ability: Ability) -> Can;

    /// Whether two guards may both be trusted under that mishap.
    fn belief(&self, mishap: Mishap) -> Belief;

    /// How long claims live. The default is the shortest ttl that options allow, because every trial waits for some.
    /// It is longer where a server is less exact.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// The cost of its operations, in commands as [`Site::counts`] counts them.
    fn cost(&self) -> Cost;

    /// The control program's name for the server that commands go to.
    fn member(&self) -> &str;

    /// The control program's names for the servers that an act applies to: the one above, unless several serve
    /// together.
    ///
    /// # Errors
    /// If the server fails.
    async fn members(&self, act: &Act, control: &Control) -> Result<Vec<String>> {
        let _ = (act, control);
        Ok(vec![self.member().to_owned()])
    }

    /// After some of several servers were down, waits until they are in step again.
    ///
    /// # Errors
    /// If that takes too long.
    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Makes replicas miss all writes from now on.
    ///
    /// # Errors
    /// If the server fails.
    async fn fall_behind(&self, control: &Control) -> Result<()> {
        let _ = control;
        Err(Error::new(ErrorKind::Unsupported, "this server has no replicas"))
    }

    /// Makes a replica take over from the server that has the most names of a namespace.
    ///
    /// # Errors
    /// If the server fails.
    async fn fail_over(&self, namespace: &str, control: &Control) -> Result<()> {
        let _ = (namespace, control);
        Err(Error::new(ErrorKind::Unsupported, "this server has no replicas"))
    }

    /// The server in that seat, as `HOST:PORT`.
    ///
    /// # Errors
    /// If the servers fail.
    async fn seated(&self, seat: Seat) -> Result<String> {
        let _ = seat;
        Err(Error::new(ErrorKind::Unsupported, "there is only one server"))
    }

    /// The server that has each of these names.
    ///
    /// # Errors
    /// If the server fails.
    async fn homes(&self, names: &[String]) -> Result<Vec<String>> {
        let _ = names;
        Err(Error::new(ErrorKind::Unsupported, "all names are on one server"))
    }

    /// Moves a name of a namespace to another server, as an operator would.
    ///
    /// # Errors
    /// If the server fails.
    async fn move_name(&self, namespace: &str, name: &str) -> Result<()> {
        let _ = (namespace, name);
        Err(Error::new(ErrorKind::Unsupported, "all names are on one server"))
    }

    /// The servers whose addresses the servers tell their clients, each with its host and port.
    ///
    /// # Errors
    /// If the server fails.
    async fn told(&self) -> Result<Vec<(String, u16)>> {
        Ok(Vec::new())
    }

    /// All the ways in which its servers write an address in a reply, from its first byte to its terminator.
    fn spellings(&self, host: &str, port: u16) -> Vec<String> {
        let _ = (host, port);
        Vec::new()
    }

    /// Text that a client sends only on its push connection.
    fn push_mark(&self) -> Option<&'static str>;

    /// The store of one more client, at that URL. Nothing is sent yet.
    ///
    /// # Errors
    /// If the URL is refused.
    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>>;

    /// All commands and signals of the server since it started, for all clients.
    ///
    /// # Errors
    /// If the server fails.
    async fn counts(&self) -> Result<Counts>;

    /// What is left in the namespaces that begin with `namespace`, one line each. Sessions in `open` may keep what a
    /// session needs.
    ///
    /// # Errors
    /// If the server fails.
    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>>;

    /// Makes the server forget everything.
    ///
    /// # Errors
    /// If the server fails.
    async fn forget(&self) -> Result<()>;

    /// Adds a user who may do everything, or may only log in.
    ///
    /// # Errors
    /// If the server fails.
    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()>;

    /// Removes a user.
    ///
    /// # Errors
    /// If the server fails.
    async fn remove_user(&self, user: &str) -> Result<()>;
}
