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
    /// Files that come with the first of them, seen from the folder above its own.
    files: &'static [&'static str],
    /// Debian's and Ubuntu's names.
    debian: &'static [&'static str],
    /// Homebrew's name, for the sentence on macOS.
    brew: &'static str,
}

pub(crate) const PARTS: &[Part] = &[
    // The smallest images of Debian leave these out. macOS has them.
    Part { name: PROCESSES, programs: &["ps", "kill"], files: &[], debian: &["procps"], brew: "" },
    Part {
        name: "redis",
        programs: &["redis-server", "redis-cli"],
        files: &[],
        debian: &["redis-server"],
        brew: "redis",
    },
    Part {
        name: "zookeeper",
        programs: &["zkServer.sh", "java"],
        files: &[],
        debian: &["zookeeper"],
        brew: "zookeeper",
    },
    Part {
        name: "mariadb",
        programs: &["mariadbd", "mariadb-install-db", "mariadb"],
        files: &[],
        debian: &["mariadb-server"],
        brew: "mariadb",
    },
    Part { name: "etcd", programs: &["etcd"], files: &[], debian: &["etcd-server"], brew: "etcd" },
    Part {
        name: PROTOC,
        programs: &["protoc"],
        files: &["include/google/protobuf/descriptor.proto"],
        debian: &["protobuf-compiler", "libprotobuf-dev"],
        brew: "protobuf",
    },
    Part {
        name: BROWSER,
        programs: &["chromium", "chromedriver"],
        files: &[],
        debian: &["chromium", "chromium-driver"],
        brew: "--cask chromium chromedriver",
    },
    // A part of its own: where Node.js is from elsewhere, it comes with npm, and Debian's would not fit.
    Part { name: NPM, programs: &["npm"], files: &[], debian: &["npm"], brew: "node" },
];

/// The part that finds processes and sends them signals.
pub(crate) const PROCESSES: &str = "processes";

/// The part with the compiler of protobuf.
pub(crate) const PROTOC: &str = "protoc";

/// The part with a browser.
pub(crate) const BROWSER: &str = "browser";

/// The part that gets axe-core for the browser.
pub(crate) const NPM: &str = "npm";

/// Where packages put servers that are not on every user's PATH.
const ASIDE: &[&str] = &[
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/share/zookeeper/bin",
    "/opt/homebrew/bin",
    "/opt/homebrew/opt/zookeeper/bin",
];

/// How this machine can install packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// apt-get, as we are root.
    Root,
    /// apt-get through sudo, with a terminal on which sudo can ask for a password.
    Sudo,
    /// apt-get through a sudo that needs no password.
    SilentSudo,
    /// There is apt-get, but nobody to run it as root.
    NotRoot,
    /// macOS, whose package manager is not for root.
    Brew,
    /// No package manager that we know.
    Unknown,
}

/// The parts with these names that are missing here.
pub(crate) fn missing(wants: impl Fn(&str) -> bool) -> Vec<&'static Part> {
    PARTS.iter().filter(|part| wants(part.name) && !part.is_here()).collect()
}

/// Installs these parts, all in one run of the package manager.
pub(crate) fn install(missing: &[&Part]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    let (first, rest) = plan(missing, Way::here())?;
    let debian = packages(missing);
    println!("installing with apt-get {}, without starting any service: {debian}", shown(first));
    let call = Call::new(first).args(rest).args(["sh", "-c", include_str!("install.sh"), "install.sh"]);
    if !call.args(debian.split(' ')).interactive()? {
        return Err(format!(
            "apt-get could not install {debian}; see its errors above; then type: {APT_GET} {debian}"
        )
        .into());
    }
    let still = list(missing.iter().filter(|part| !part.is_here()).map(|part| part.name));
    if still.is_empty() {
        Ok(())
    } else {
        Err(format!("apt-get succeeded, but {still} cannot be found").into())
    }
}

const APT_GET: &str = "apt-get install --no-install-recommends";

/// The words that run a command as root, or a sentence with the line to type.
fn plan(missing: &[&Part], way: Way) -> Result<(&'static str, &'static [&'static str])> {
    let (names, debian) = (list(missing.iter().map(|part| part.name)), packages(missing));
    match way {
        Way::Root => Ok(("env", &[])),
        Way::Sudo => Ok(("sudo", &[])),
        Way::SilentSudo => Ok(("sudo", &["-n"])),
        Way::NotRoot => Err(format!(
            "missing: {names}; to install it needs root, and sudo does not work here; type as root: {APT_GET} {debian}"
        )
        .into()),
        Way::Brew => {
            let brew = list(missing.iter().map(|part| part.brew));
            Err(format!("missing: {names}; type: brew install {brew}").into())
        }
        Way::Unknown => Err(format!(
            "missing: {names}; this system has no apt-get; install by hand what Debian calls: {debian}"
        )
        .into()),
    }
}

fn shown(program: &str) -> &'static str {
    if program == "sudo" { "through sudo" } else { "as root" }
}

impl Way {
    fn here() -> Self {
        if cfg!(target_os = "macos") {
            return Self::Brew;
        }
        match (find("apt-get"), find("sudo")) {
            (None, _) => Self::Unknown,
            (Some(_), _) if is_root() => Self::Root,
            (Some(_), Some(_)) if std::io::stdin().is_terminal() => Self::Sudo,
            (Some(_), Some(_)) if sudo_is_silent() => Self::SilentSudo,
            (Some(_), _) => Self::NotRoot,
        }
    }
}

fn sudo_is_silent() -> bool {
    let asked = Call::new("sudo").args(["-n", "true"]).limit(Duration::from_secs(10)).run();
    asked.is_ok_and(|asked| asked.success())
}

fn packages(parts: &[&Part]) -> String {
    list(parts.iter().flat_map(|part| part.debian.iter().copied()))
}

impl Part {
    fn is_here(&self) -> bool {
        let found: Vec<_> = self.programs.iter().map(|program| find(program)).collect();
        let first = found.first().cloned().flatten().and_then(|program| program.canonicalize().ok());
        let above = first.as_deref().and_then(Path::parent).and_then(Path::parent);
        let has = |file: &&str| above.is_some_and(|above| above.join(file).is_file());
        found.iter().all(Option::is_some) && self.files.iter().all(has)
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

pub(crate) fn is_root() -> bool {
    Call::new("id").arg("-u").run().is_ok_and(|id| id.stdout.trim() == "0")
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(names: &[&str], way: Way) -> std::result::Result<&'static str, String> {
        let parts: Vec<&Part> = PARTS.iter().filter(|part| names.contains(&part.name)).collect();
        plan(&parts, way).map(|(first, _)| first).map_err(|sentence| sentence.to_string())
    }

    #[test]
    fn packages_are_installed_as_root_or_through_sudo() {
        assert_eq!(line(&["redis"], Way::Root), Ok("env"));
        assert_eq!(line(&["redis"], Way::Sudo), Ok("sudo"));
        assert_eq!(line(&["redis"], Way::SilentSudo), Ok("sudo"));
    }

    #[test]
    fn who_cannot_install_is_told_the_line_to_type() {
        let sentence = line(&["redis", "zookeeper"], Way::NotRoot).unwrap_err();
        assert!(sentence.starts_with("missing: redis zookeeper; "), "{sentence}");
        let end = "type as root: apt-get install --no-install-recommends redis-server zookeeper";
        assert!(sentence.ends_with(end), "{sentence}");
        assert!(line(&["redis"], Way::Brew).unwrap_err().ends_with("type: brew install redis"));
        assert!(line(&["redis"], Way::Unknown).unwrap_err().ends_with(": redis-server"));
    }
}
