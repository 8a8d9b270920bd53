//! The parts of setup that come from the system's package manager.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::call::Call;
use crate::trouble::Result;

/// Something to install, and how to tell that it is installed.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// All of these must be found, on the PATH or in [`ASIDE`].
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

/// Where packages put servers that are not on every user's PATH.
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
        println!("{}: already installed", part.name);
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
            "missing: {names}; this system has no apt-get; install by hand, under Debian's names: {debian}"
        )
        .into());
    }
    println!("installing with apt-get, without starting any service: {debian}");
    let Some(mut call) = as_root() else {
        return Err(format!(
            "missing: {names}; this needs root, and sudo does not work here; run as root: apt-get install --no-install-recommends {debian}"
        )
        .into());
    };
    call = call.args(["sh", "-c", include_str!("install.sh"), "install.sh"]).args(debian.split(' '));
    if !call.interactive()? {
        return Err(format!("apt-get could not install {debian}; see its errors above").into());
    }
    let still = list(missing.iter().filter(|part| !part.is_here()).map(|part| part.name));
    if still.is_empty() {
        Ok(())
    } else {
        Err(format!("apt-get succeeded, but {still} cannot be found").into())
    }
}

impl Part {
    fn is_here(&self) -> bool {
        self.programs.iter().all(|program| find(program).is_some())
    }
}

/// Finds a program on the PATH or in [`ASIDE`].
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let dirs = std::env::split_paths(&path).chain(ASIDE.iter().map(|dir| Path::new(dir).to_owned()));
    let mut candidates = dirs.map(|dir| dir.join(format!("{program}{}", std::env::consts::EXE_SUFFIX)));
    candidates.find(|candidate| candidate.is_file())
}

/// A program that must exist, or an error that says how to install it.
pub(crate) fn need(program: &str, part: &str) -> Result<PathBuf> {
    find(program)
        .ok_or_else(|| format!("`{program}` is missing; install it with `cargo xtask setup {part}`").into())
}

/// The beginning of a call as root, if possible: we are root, or there is a sudo that needs no password or a terminal
/// to ask for it.
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
