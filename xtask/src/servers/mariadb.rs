//! One MariaDB server with an empty database, with or without TLS; root has no password.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::group::Group;
use super::life::Life;
use super::wire;
use crate::call::Call;
use crate::place;
use crate::setup::packages::{is_root, need};
use crate::trouble::Result;

const LIMIT: Duration = Duration::from_secs(60);
/// A commit does not wait for the disk of the machine, which others keep busy: a test would be late for their sake. Without a
/// power failure nothing is lost.
const NO_DISK: &str = "--innodb-flush-log-at-trx-commit=2";
const DATABASE: &str = "tidelock";
/// Made for tests on 127.0.0.1; the server offers them on its one port.
const CERTIFICATES: [(&str, &str, &str); 3] = [
    ("--ssl-ca", "ca.pem", include_str!("certificates/ca.pem")),
    ("--ssl-cert", "server.pem", include_str!("certificates/server.pem")),
    ("--ssl-key", "server.key", include_str!("certificates/server.key")),
];

pub(super) fn needs() -> Result<()> {
    for program in ["mariadbd", "mariadb-install-db", "mariadb"] {
        need(program, "mariadb")?;
    }
    Ok(())
}

/// The server greets first: four bytes of length and number, then the protocol's version, 10.
pub(super) fn serves(_role: &str, port: u16) -> bool {
    wire::greeting(port).is_some_and(|bytes| bytes.get(4) == Some(&10))
}

pub(super) fn single(group: &mut Group) -> Result<String> {
    start(group, |_| Ok(Vec::new()))
}

pub(super) fn single_with_tls(group: &mut Group) -> Result<String> {
    start(group, |folder| {
        let write = |(flag, file, text): &(&str, &str, &str)| {
            let path = folder.join(file);
            place::write(&path, text)?;
            Ok(format!("{flag}={}", path.display()))
        };
        CERTIFICATES.iter().map(write).collect()
    })
}

fn start(group: &mut Group, flags: impl FnOnce(&Path) -> Result<Vec<String>>) -> Result<String> {
    let [port] = group.ports()?;
    let folder = group.folder("server")?;
    let data = format!("--datadir={}", folder.join("data").display());
    install(&data)?;
    let mut command = Command::new(need("mariadbd", "mariadb")?);
    command.current_dir(&folder).args(["--no-defaults", &data, "--skip-name-resolve"]);
    // A server that starts deletes the temporary tables of others that have the same folder for them.
    command.arg(format!("--tmpdir={}", folder.display()));
    command.arg(format!("--socket={}", folder.join("socket").display()));
    command.arg(format!("--pid-file={}", folder.join("pid").display()));
    command.args(["--bind-address=127.0.0.1", &format!("--port={port}"), "--max-connections=1000"]);
    if group.life == Life::Short {
        command.arg(NO_DISK); // what is measured, or a user's, commits as MariaDB does by itself
    }
    command.args(flags(&folder)?).args(as_whom());
    group.equip_clock("server", &mut command)?;
    group.spawn("server", port, &command)?;
    group.wait("MariaDB", LIMIT, || serves("server", port))?;
    create_database(port)?;
    Ok(format!("mysql://root@127.0.0.1:{port}/{DATABASE}"))
}

fn install(data: &str) -> Result<()> {
    let call = Call::new(need("mariadb-install-db", "mariadb")?).args(["--no-defaults", data]);
    let call = call.args(["--auth-root-authentication-method=normal", "--skip-test-db"]).args(as_whom());
    let installed = call.limit(LIMIT).run()?;
    if installed.success() {
        Ok(())
    } else {
        Err(format!("{}:\n{}", installed.trouble(), installed.tail(8)).into())
    }
}

fn create_database(port: u16) -> Result<()> {
    let call =
        Call::new(need("mariadb", "mariadb")?).args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"]);
    let call = call.args([&format!("--port={port}"), "--user=root", "--execute"]);
    let created = call.arg(format!("CREATE DATABASE IF NOT EXISTS {DATABASE}")).limit(LIMIT).run()?;
    if created.success() {
        Ok(())
    } else {
        Err(format!("{}:\n{}", created.trouble(), created.tail(8)).into())
    }
}

/// MariaDB runs as root only with this flag.
fn as_whom() -> Option<&'static str> {
    is_root().then_some("--user=root")
}
