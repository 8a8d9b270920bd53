//! Makes a replica take over, whether or not it has all its master's writes.
//!
//! A paused replica does not miss the writes of that time: they wait in its socket, and it reads them when it resumes.
//! So the master also closes the connection to it, and the replica cannot reconnect before the master is dead.

use redis::cmd;
use tidelock_core::{Error, ErrorKind, Result};

use super::keys;
use super::servers::{Node, Servers, in_time};
use tidelock_conformance::subjects::Control;

impl Servers {
    /// From now on replicas miss all writes.
    pub(super) async fn fall_behind(&self, control: &Control) -> Result<()> {
        let (masters, replicas): (Vec<_>, Vec<_>) =
            self.all().await?.into_iter().partition(|node| node.is_master);
        control.pause(&roles(&replicas, control).await?).await?;
        for master in masters {
            master.ask::<i64>(cmd("CLIENT").arg("KILL").arg("TYPE").arg("replica")).await?;
        }
        Ok(())
    }

    /// Kills the master with the most names of a namespace, and waits until other servers have all that it had.
    pub(super) async fn fail_over(&self, namespace: &str, control: &Control) -> Result<()> {
        let masters = self.masters().await?;
        let mut first: Option<(usize, &Node)> = None;
        for master in &masters {
            let has = keys::scan(&mut master.connect().await?, namespace).await?.len();
            if first.is_none_or(|(most, _)| has > most) {
                first = Some((has, master));
            }
        }
        let nobody = || Error::new(ErrorKind::Unavailable, "there is no master");
        let (_, old) = first.ok_or_else(nobody)?;
        control.kill(&roles(std::slice::from_ref(old), control).await?).await?;
        control.resume().await?;
        in_time("a replica takes over", || self.has_passed_over(old.port, masters.len())).await
    }

    /// Whether all remaining servers know as many masters as before, without the one at that port, and each of these
    /// masters knows that it is one.
    async fn has_passed_over(&self, port: u16, count: usize) -> Result<bool> {
        for masters in self.masters_as_known_to_each().await {
            if masters.len() != count || masters.iter().any(|master| master.port == port) {
                return Ok(false);
            }
        }
        for master in self.masters().await? {
            if !master.is_in_step().await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The names that the control program has for these servers.
pub(super) async fn roles(nodes: &[Node], control: &Control) -> Result<Vec<String>> {
    let members = control.members().await?;
    let role = |node: &Node| {
        let found = members.iter().find(|(_, port)| *port == node.port);
        let unknown = || {
            Error::new(
                ErrorKind::Unsupported,
                format!("the control program does not know the server at {}", node.port),
            )
        };
        found.map(|(role, _)| role.clone()).ok_or_else(unknown)
    };
    nodes.iter().map(role).collect()
}
