//! Checks a server when a client connects: can it serve, and may this user run every command of the scripts? So a
//! problem is reported at once, not at the first hand-off.

use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;
use tidelock_core::backend::unharmed;
use tidelock_core::{Error, ErrorKind, Name, Result, SessionId};

use crate::fleet::Fleet;
use crate::keys::Keys;
use crate::link::{Link, WhenDropped};
use crate::script::CHECK;
use crate::{reply, trouble};

/// The oldest version with all commands that the scripts use.
const OLDEST: (u32, u32) = (6, 2);

/// Who says that this is the server to connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    TheProgram,
    Sentinels,
}

/// Checks a single server, or a master under sentinels.
pub(crate) async fn server(link: &Link, named_by: NamedBy) -> Result<()> {
    let place = link.place();
    let info = link.ask(redis::cmd("INFO"), WhenDropped::Forget).await?;
    told(info, place)?.map_or(Ok(()), |info| Info::of(&info)?.check(place, named_by))
}

/// Checks a node of a cluster by its INFO.
#[cfg(feature = "cluster")]
pub(crate) fn cluster_node(info: Value, place: &str) -> Result<()> {
    told(info, place)?.map_or(Ok(()), |info| Info::of(&info)?.check_node(place))
}

/// The reply to INFO; `None` if this user has no permission for it. Then the server is trusted.
fn told(info: Value, place: &str) -> Result<Option<Value>> {
    match trouble::checked(info, place) {
        Ok(info) => Ok(Some(info)),
        Err(error) if error.kind() == ErrorKind::Denied => {
            unharmed(
                || tracing::debug!(%error, "INFO was refused, so the server's version and role stay unknown"),
            );
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Tries every command of the scripts once, on a name that nobody else uses.
pub(crate) async fn permissions(fleet: &dyn Fleet, keys: &Keys, session: SessionId) -> Result<()> {
    let name = nobodys(session)?;
    let mut command = CHECK.on(&name, keys);
    command.arg(session.to_string()).arg(&keys.channels);
    let reply = fleet.ask(&name, command, WhenDropped::Forget).await?;
    let [command, said] = reply::parts(&reply) else {
        return Ok(());
    };
    let (command, said) = (reply::text(command).unwrap_or_default(), reply::text(said).unwrap_or_default());
    Err(refusal(command, said, &keys.channels))
}

/// Why the server refused one of the scripts' commands, judged by its message. Forks of Redis have their own messages.
fn refusal(command: &str, said: &str, base: &str) -> Error {
    let (kind, wrong) = if trouble::is_denied(said) {
        let lower = command.to_lowercase();
        let grant = format!("grant it with: ACL SETUSER … +{lower} ~{base}* &{base}*");
        (ErrorKind::Denied, format!("Redis refused {command}; {grant} (Redis said: {said})"))
    } else if said.contains("Unknown") && said.contains("command called from") {
        let wrong =
            format!("Redis has no {command}, which locks need; use Redis 6.2 or newer (Redis said: {said})");
        (ErrorKind::Unsupported, wrong)
    } else {
        (ErrorKind::Unavailable, format!("Redis refused {command}: {said}"))
    };
    Error::new(kind, wrong)
}

/// Whether this user may wait for replicas. Warns operators if there are fewer replicas than `count` now.
pub(crate) async fn replicas(fleet: &dyn Fleet, session: SessionId, count: u32) -> Result<()> {
    let mut wait = redis::cmd("WAIT");
    wait.arg(0).arg(1); // waits for none, so it answers at once how many there are
    let reply = fleet.ask(&nobodys(session)?, wait, WhenDropped::Forget).await?;
    if let Value::Int(known) = reply
        && known < i64::from(count)
    {
        unharmed(|| {
            tracing::warn!(known, wanted = count, "the server has fewer replicas than each grant waits for");
        });
    }
    Ok(())
}

/// A name that nobody else uses.
fn nobodys(session: SessionId) -> Result<Name> {
    Name::new(&format!("tidelock check {session}"))
}

/// The reply to INFO.
struct Info<'a>(&'a str);

impl<'a> Info<'a> {
    fn of(reply: &'a Value) -> Result<Self> {
        reply::text(reply).map(Self).ok_or_else(|| trouble::strange(reply))
    }

    fn check(&self, place: &str, named_by: NamedBy) -> Result<()> {
        let unsupported = |wrong: String| Err(Error::new(ErrorKind::Unsupported, format!("{place} {wrong}")));
        // Each fork has its own name for the mode (`redis_mode`, `server_mode`, …), but every sentinel counts masters.
        if self.get("sentinel_masters").is_some() {
            return unsupported(
                "is a sentinel; give all of them as redis-sentinel://HOST:PORT,HOST:PORT#MASTER".into(),
            );
        }
        self.check_version(place)?;
        if self.get("cluster_enabled") == Some("1") {
            return unsupported(
                "is a node of a cluster; give its nodes as redis-cluster://HOST:PORT,HOST:PORT".into(),
            );
        }
        if self.get("role") == Some("slave") && self.get("slave_read_only") != Some("0") {
            if named_by == NamedBy::Sentinels {
                let wrong =
                    format!("{place} has just become a read-only replica; its sentinels will name another");
                return Err(Error::new(ErrorKind::Unavailable, wrong));
            }
            let (host, port) = (self.get("master_host"), self.get("master_port"));
            let master = format!("{}:{}", host.unwrap_or("?"), port.unwrap_or("?"));
            return unsupported(format!(
                "is a read-only replica; give its master, {master}, or the sentinels"
            ));
        }
        self.warn_of_eviction(place);
        Ok(())
    }

    #[cfg(feature = "cluster")]
    fn check_node(&self, place: &str) -> Result<()> {
        self.check_version(place)?;
        if self.get("cluster_enabled") == Some("0") {
            let wrong = format!("{place} is not a cluster node; give it as redis://HOST:PORT");
            return Err(Error::new(ErrorKind::Unsupported, wrong));
        }
        self.warn_of_eviction(place);
        Ok(())
    }

    fn check_version(&self, place: &str) -> Result<()> {
        match self.get("redis_version") {
            Some(version) if numbers(version) < OLDEST => {
                let wrong = format!("{place} runs Redis {version}; Tidelock needs 6.2 or newer");
                Err(Error::new(ErrorKind::Unsupported, wrong))
            }
            _ => Ok(()),
        }
    }

    /// Warns, once per process, that a server that evicts keys evicts locks.
    fn warn_of_eviction(&self, place: &str) {
        static SAID: AtomicBool = AtomicBool::new(false);
        let policy = self.get("maxmemory_policy").unwrap_or("noeviction");
        let is_limited = self.get("maxmemory").is_some_and(|most| most != "0");
        if is_limited && policy != "noeviction" && !SAID.swap(true, Ordering::Relaxed) {
            unharmed(|| {
                tracing::warn!(
                    place,
                    policy,
                    "this server may evict locks when its memory is full; set maxmemory-policy to noeviction"
                );
            });
        }
    }

    fn get(&self, field: &str) -> Option<&str> {
        self.0.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':').map(str::trim))
    }
}

/// The first two numbers of a version.
fn numbers(version: &str) -> (u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(info: &str) -> Option<String> {
        Info(info).check("Redis at here", NamedBy::TheProgram).err().map(|error| error.to_string())
    }

    /// The messages of Redis 6.0, of Redis 7 and 8, of Redict, and of Valkey 8 and 9.
    #[test]
    fn a_command_that_is_missing_will_not_come() {
        for said in [
            "@user_script: 24: Unknown Redis command called from Lua script",
            "ERR Unknown Redis command called from script",
            "ERR Unknown Redict command called from script",
            "ERR Unknown command called from script",
        ] {
            let error = refusal("HRANDFIELD", said, "tidelock:");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{said}");
            assert!(error.to_string().contains("HRANDFIELD"), "{error}");
        }
        let passing = refusal("HSET", "OOM command not allowed when used memory > 'maxmemory'.", "tidelock:");
        assert_eq!(passing.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn who_cannot_serve_is_told_why() {
        assert_eq!(refused("redis_version:6.2.0\r\nrole:master\r\ncluster_enabled:0\r\n"), None);
        assert_eq!(refused("redis_version:10.0.1\r\n"), None);
        assert!(refused("redis_version:6.0.16\r\n").unwrap().contains("6.2 or newer"));
        assert!(
            refused("redis_version:7.0.0\r\ncluster_enabled:1\r\n").unwrap().contains("redis-cluster://")
        );
        for mode in ["redis_mode", "server_mode", "redict_mode"] {
            let sentinel = format!("redis_version:7.2.4\r\n{mode}:sentinel\r\nsentinel_masters:1\r\n");
            assert!(refused(&sentinel).unwrap().contains("redis-sentinel://"));
        }
        let replica =
            "redis_version:7.0.0\r\nrole:slave\r\nslave_read_only:1\r\nmaster_host:a\r\nmaster_port:7\r\n";
        assert!(refused(replica).unwrap().contains("its master, a:7"));
        let in_between = Info(replica).check("Redis at here", NamedBy::Sentinels).unwrap_err();
        assert_eq!(in_between.kind(), ErrorKind::Unavailable, "{in_between}");
    }
}
