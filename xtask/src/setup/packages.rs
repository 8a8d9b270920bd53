//! The side of setup that the system's package manager does.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::call::Call;
use crate::trouble::Result;

/// Something to install, and how to see that it is there.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// All must be found, on the PATH or at these places.
    programs: &'static [&'static str],
    /// Debian's and Ubuntu's names.
    debian: &'static [&'static str],
    /// Homebrew's name, for the sentence on macOS.
    brew: &'static str,
}

pub(crate) const PARTS: &[Part] = &[
    Part {
        name: "redis",
        programs: &["redis-server", "redis-cli"],
        debian: &["redis-server"],
        brew: "redis",
    },
    Part { name: "zookeeper", programs: &["zkServer.sh", "java"], debian: &["zookeeper"], brew: "zookeeper" },
    Part {
        name: "mariadb",
        programs: &["mariadbd", "mariadb-install-db", "mariadb"],
        debian: &["mariadb-server"],
        brew: "mariadb",
    },
    Part { name: "etcd", programs: &["etcd"], debian: &["etcd-server"], brew: "etcd" },
    Part { name: "protoc", programs: &["protoc"], debian: &["protobuf-compiler"], brew: "protobuf" },
    Part {
        name: "browser",
        programs: &["chromium", "chromedriver"],
        debian: &["chromium", "chromium-driver"],
        brew: "--cask chromium chromedriver",
    },
];

/// Where packages put servers that they do not put on everyone's PATH.
const ASIDE: &[&str] = &[
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/share/zookeeper/bin",
    "/opt/homebrew/bin",
    "/opt/homebrew/opt/zookeeper/bin",
];

/// Installs the wanted parts that are missing, all in one run of the package manager.
pub(crate) fn install(wants: impl Fn(&str) -> bool) -> Result<()> {
    let missing: Vec<&Part> = PARTS.iter().filter(|part| wants(part.name) && !part.is_here()).collect();
    for part in PARTS.iter().filter(|part| wants(part.name) && part.is_here()) {
        println!("{}: is here", part.name);
    }
    if missing.is_empty() {
        return Ok(());
    }
    let names = list(missing.iter().map(|part| part.name));
    let debian = list(missing.iter().flat_map(|part| part.debian.iter().copied()));
    if cfg!(target_os = "macos") {
        let brew = list(missing.iter().map(|part| part.brew));
        return Err(format!("missing: {names}; install with Homebrew by hand: brew install {brew}").into());
    }
    if find("apt-get").is_none() {
        return Err(format!(
            "missing: {names}; this system has no apt-get, so install by hand what Debian calls {debian}"
        )
        .into());
    }
    println!("installing with apt-get, without starting any service: {debian}");
    let Some(mut call) = as_root() else {
        return Err(format!(
            "missing: {names}; this needs root and there is no sudo that works here, so run as root: apt-get install --no-install-recommends {debian}"
        )
        .into());
    };
    call = call.args(["sh", "-c", include_str!("install.sh"), "install.sh"]).args(debian.split(' '));
    if !call.interactive()? {
        return Err(format!("apt-get could not install {debian}; it says above why").into());
    }
    let still = list(missing.iter().filter(|part| !part.is_here()).map(|part| part.name));
    if still.is_empty() {
        Ok(())
    } else {
        Err(format!("apt-get is content, but {still} cannot be found").into())
    }
}

impl Part {
    fn is_here(&self) -> bool {
        self.programs.iter().all(|program| find(program).is_some())
    }
}

/// A program, by the PATH and the places where packages hide servers.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(ASIDE.iter().map(|dir| Path::new(dir).to_owned()));
    let mut candidates = dirs.map(|dir| dir.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)));
    candidates.find(|candidate| candidate.is_file())
}

/// A program that must be there, or the sentence that says how to get it.
pub(crate) fn need(program: &str, part: &str) -> Result<PathBuf> {
    find(program)
        .ok_or_else(|| format!("`{program}` is missing; install it with `cargo xtask setup {part}`").into())
}

/// The start of a call as root, if there is a way to be root: being it, or a sudo that needs no password or has
/// a person to ask.
fn as_root() -> Option<Call> {
    if is_root() {
        return Some(Call::new("env"));
    }
    find("sudo")?;
    if std::io::stdin().is_terminal() {
        return Some(Call::new("sudo"));
    }
    let silent = Call::new("sudo").args(["-n", "true"]).limit(Duration::from_secs(10)).run().ok()?;
    silent.success().then(|| Call::new("sudo").arg("-n"))
}

pub(crate) fn is_root() -> bool {
    Call::new("id").arg("-u").run().is_ok_and(|id| id.stdout.trim() == "0")
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}
