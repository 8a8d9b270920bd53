//! The scripts, one for each operation. They are called by their hash, or by their text if the server has forgotten it.

use std::collections::HashSet;
use std::sync::LazyLock;

use redis::aio::MultiplexedConnection;
use redis::{Arg, Cmd, RedisResult, Value};
use tidelock_core::Name;

use crate::keys::{Keys, PARTS};
use crate::lua;

/// A Tidelock script.
#[derive(Debug)]
pub(crate) struct Script {
    text: LazyLock<String>,
    hash: LazyLock<String>,
}

macro_rules! script {
    ($($name:ident),+) => {
        $(pub(crate) static $name: Script = Script {
            text: LazyLock::new(|| lua::with_values(lua::$name)),
            hash: LazyLock::new(|| redis::Script::new(&$name.text).get_hash().to_owned()),
        };)+
        static ALL: &[&Script] = &[$(&$name),+];
    };
}

script!(JOIN, LEAVE, JOIN_MANY, LEAVE_MANY, LIGHTEN, RESIZE, LOOK, RENEW, INSPECT, CHECK, CONFIRM);

impl Script {
    /// The command that runs the script on a name, without the script's arguments.
    pub(crate) fn on(&self, name: &Name, keys: &Keys) -> Cmd {
        let mut command = Cmd::with_capacity(8, 256);
        command.arg("EVALSHA").arg(self.hash.as_str()).arg(PARTS.len());
        keys.put(&mut command, name);
        command
    }

    /// The command that runs the script on so many names, without their keys and the script's arguments.
    pub(crate) fn on_many(&self, names: usize, by_text: bool) -> Cmd {
        let mut command = Cmd::new();
        match by_text {
            true => command.arg("EVAL").arg(self.text.as_str()),
            false => command.arg("EVALSHA").arg(self.hash.as_str()),
        };
        command.arg(names * PARTS.len());
        command
    }

    pub(crate) fn hash(&self) -> &str {
        &self.hash
    }
}

/// The script that does on many names what the one with this hash does on one.
pub(crate) fn of_many(hash: &[u8]) -> Option<&'static Script> {
    let all = [(&JOIN, &JOIN_MANY), (&LEAVE, &LEAVE_MANY)];
    all.into_iter().find(|(one, _)| one.hash.as_bytes() == hash).map(|(_, many)| many)
}

/// Runs a script that does nothing. It is served when our scripts are: a server that holds up writes holds up every
/// script. Any reply will do.
pub(crate) async fn is_served(mut connection: MultiplexedConnection) -> RedisResult<()> {
    connection.send_packed_command(redis::cmd("EVAL").arg("return 1").arg(0)).await.map(drop)
}

/// Waits until this connection answers; for ever if it never does.
pub(crate) async fn is_answered(connection: MultiplexedConnection) {
    if is_served(connection).await.is_err() {
        std::future::pending::<()>().await; // the connection has ended; its task notices that
    }
}

/// Whether a server answers that it does not know the script.
pub(crate) fn is_unknown(reply: &Value) -> bool {
    matches!(reply, Value::ServerError(error) if error.code() == "NOSCRIPT")
}

/// The same commands for a server that does not know their scripts. Only the first call of each script carries its
/// text: the texts for a crowd would be megabytes.
pub(crate) fn by_text_once<'a>(commands: impl Iterator<Item = &'a Cmd>) -> impl Iterator<Item = Cmd> {
    let mut told = HashSet::new();
    commands.map(move |command| {
        let is_new = told.insert(word(command, 1));
        is_new.then(|| by_text(command)).flatten().unwrap_or_else(|| command.clone())
    })
}

/// The same command for a server that does not know the script; `None` if it calls no script of ours.
pub(crate) fn by_text(command: &Cmd) -> Option<Cmd> {
    let mut words = words(command);
    let (_, hash) = (words.next()?, words.next()?);
    let script = ALL.iter().find(|script| script.hash.as_bytes() == hash)?;
    let mut by_text = Cmd::new();
    by_text.arg("EVAL").arg(script.text.as_str());
    for word in words {
        by_text.arg(word);
    }
    Some(by_text)
}

/// The words of a command.
pub(crate) fn words(command: &Cmd) -> impl Iterator<Item = &[u8]> {
    command.args_iter().map(|word| match word {
        Arg::Simple(word) => word,
        _ => b"", // a cursor, which no script has
    })
}

fn word(command: &Cmd, at: usize) -> Option<&[u8]> {
    words(command).nth(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_script_is_sent_as_a_text_with_the_same_arguments() {
        let mut command = RENEW.on(&Name::new("a").unwrap(), &Keys::of("t"));
        command.arg("argument");
        let packed = by_text(&command).unwrap().get_packed_command();
        let packed = String::from_utf8(packed).unwrap();
        assert!(packed.starts_with("*7\r\n$4\r\nEVAL\r\n"), "{packed}");
        assert!(packed.contains("-- renew:") && packed.ends_with("\r\n$8\r\nargument\r\n"), "{packed}");
        assert!(by_text(&redis::cmd("PING")).is_none());
    }

    #[test]
    fn a_crowd_tells_each_text_once() {
        let on = |script: &Script, name| script.on(&Name::new(name).unwrap(), &Keys::of("t"));
        let commands = [on(&RENEW, "a"), on(&LOOK, "a"), on(&RENEW, "b"), on(&RENEW, "c"), on(&LOOK, "b")];
        let words: Vec<_> =
            by_text_once(commands.iter()).map(|command| word(&command, 0) == Some(b"EVAL")).collect();
        assert_eq!(words, [true, true, false, false, false]);
    }
}
