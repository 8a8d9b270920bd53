//! One kind of server, as far as the suite has to know it: how clients reach it, and what its operator can do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tidelock::{Backend, Error, ErrorKind, Result, SessionId};

use super::Control;
use crate::{Ability, Act, Belief, Can, Cost, Counts, Mishap, Seat};

/// A server of one kind, at one URL.
#[async_trait]
pub trait Site: fmt::Debug + Send + Sync + 'static {
    /// What it is called in reports.
    fn name(&self) -> &str;

    /// Where it is.
    fn url(&self) -> &str;

    /// The port of a URL that says none.
    fn default_port(&self) -> u16;

    /// What its promises rest on, a sentence each.
    fn assumptions(&self) -> Vec<String>;

    /// What this kind of server cannot do, or have done to it, wherever it is.
    fn can(&self, ability: Ability) -> Can;

    /// Whether two guards may both be believed under that mishap.
    fn belief(&self, mishap: Mishap) -> Belief;

    /// How long claims live: the least that options allow, for every trial waits for some of them; more where a server
    /// is that much less exact.
    fn ttl(&self) -> Duration {
        Duration::from_secs(1)
    }

    /// What its operations cost, in commands as [`Site::counts`] counts them.
    fn cost(&self) -> Cost;

    /// What whoever has started it calls the server that commands go to.
    fn member(&self) -> &str;

    /// What they call the servers that an act is done to: that one, unless several serve together.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn members(&self, act: &Act, control: &Control) -> Result<Vec<String>> {
        let _ = (act, control);
        Ok(vec![self.member().to_owned()])
    }

    /// Waits until servers that serve together are in step again, after some of them were down.
    ///
    /// # Errors
    /// When that takes too long.
    async fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Sees to it that replicas miss what is written from now on.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn fall_behind(&self, control: &Control) -> Result<()> {
        let _ = control;
        Err(Error::new(ErrorKind::Unsupported, "this server has no replicas"))
    }

    /// Has a replica take over from the server that has the most of a namespace.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn fail_over(&self, namespace: &str, control: &Control) -> Result<()> {
        let _ = (namespace, control);
        Err(Error::new(ErrorKind::Unsupported, "this server has no replicas"))
    }

    /// Which of its servers is in that seat, `HOST:PORT`.
    ///
    /// # Errors
    /// Trouble with the servers.
    async fn seated(&self, seat: Seat) -> Result<String> {
        let _ = seat;
        Err(Error::new(ErrorKind::Unsupported, "this is one server"))
    }

    /// Which of its servers has each of these names.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn homes(&self, names: &[String]) -> Result<Vec<String>> {
        let _ = names;
        Err(Error::new(ErrorKind::Unsupported, "one server has all names"))
    }

    /// Gives a name of a namespace to another server, as an operator does it.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn move_name(&self, namespace: &str, name: &str) -> Result<()> {
        let _ = (namespace, name);
        Err(Error::new(ErrorKind::Unsupported, "one server has all names"))
    }

    /// What its servers tell clients the addresses of, each with its host and port.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn told(&self) -> Result<Vec<(String, u16)>> {
        Ok(Vec::new())
    }

    /// All the ways in which its servers write an address when they tell it, from its first byte to what ends it.
    fn spellings(&self, host: &str, port: u16) -> Vec<String> {
        let _ = (host, port);
        Vec::new()
    }

    /// What a client says on the connection that it is told things on, and on no other.
    fn push_mark(&self) -> Option<&'static str>;

    /// One more client's store, at that URL. Nothing is sent.
    ///
    /// # Errors
    /// What the URL is refused for.
    fn backend(&self, url: &str) -> Result<Arc<dyn Backend>>;

    /// What the server has been asked and has told since it started, by everyone.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn counts(&self) -> Result<Counts>;

    /// What is left in the namespaces that begin with `namespace`, a line each. Sessions in `open` may have what a
    /// session needs.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn leftovers(&self, namespace: &str, open: &[SessionId]) -> Result<Vec<String>>;

    /// Makes the server forget everything.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn forget(&self) -> Result<()>;

    /// Makes somebody known, who may do everything, or only log in.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn add_user(&self, user: &str, password: &str, may_everything: bool) -> Result<()>;

    /// Makes somebody unknown again.
    ///
    /// # Errors
    /// Trouble with the server.
    async fn remove_user(&self, user: &str) -> Result<()>;
}
