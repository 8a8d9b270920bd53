//! Runs the playground in a real browser: serves the page below a path, starts a chromedriver, and runs
//! `playground-browser` on both.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::Served;
use super::build::build_with;
use crate::call::{Call, Outcome, Show};
use crate::cargo::{self, Artifact};
use crate::place::{self, Scratch};
use crate::setup::packages::need;
use crate::trouble::{Result, While};

/// How long a chromedriver may take to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// A project page is served below a path.
const BELOW: &str = "/a/project/";

/// A running chromedriver, which ends with this.
struct Driver {
    child: Child,
    url: String,
}

/// The programs that the page is built and tried with.
struct Programs(Vec<Artifact>);

impl Programs {
    /// Nothing is built that only other packages need.
    fn alone(root: &Path) -> Result<Self> {
        let selection = ["--package", "playground-browser", "--package", "playground-bindings"];
        cargo::build_programs(root, &selection, |_| true).map(Self)
    }

    /// The same, and the program that tells how each lesson ends, with the dependencies that the tests have built.
    fn among_all(root: &Path) -> Result<Self> {
        let bins = ["--bin", "playground-browser", "--bin", "playground-bindings", "--example", "outcomes"];
        let selection = [cargo::AMONG_ALL, &bins, &["--profile", "test"]].concat();
        cargo::build_programs(root, &selection, |_| true).map(Self)
    }

    fn path(&self, name: &str) -> Result<&Path> {
        let found = self.0.iter().find(|program| program.target == name);
        found
            .map(|program| program.executable.as_path())
            .ok_or_else(|| format!("cargo built no {name}").into())
    }
}

impl Driver {
    fn start() -> Result<Self> {
        let program = need("chromedriver", "browser")?;
        need("chromium", "browser")?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).when(|| "find a free port".into())?;
        let port = free.local_addr().when(|| "find a free port".into())?.port();
        drop(free);
        let mut command = Command::new(&program);
        command
            .arg(format!("--port={port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().when(|| format!("start {}", program.display()))?;
        let driver = Self { child, url: format!("http://127.0.0.1:{port}") };
        let began = Instant::now();
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if began.elapsed() > PATIENCE {
                return Err("chromedriver does not listen".into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(driver)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Asked to end, it ends its browser, too.
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

/// Runs the checks; pictures of every lesson are written into this folder.
pub(crate) fn check(root: &Path, pictures: &Path) -> Result<Outcome> {
    std::fs::create_dir_all(pictures).when(|| format!("make the folder {}", pictures.display()))?;
    let programs = Programs::among_all(root)?;
    let outcomes = Call::new(programs.path("outcomes")?).run()?.required()?.stdout;
    let axe = axe_core(root)?;
    let scratch = Scratch::new("outcomes")?;
    let file = scratch.path().join("outcomes");
    std::fs::write(&file, outcomes).when(|| format!("write {}", file.display()))?;
    with_page(root, &programs, |program, driver, page| {
        let call = Call::new(program).args(["check", driver, page]).arg(&file).arg(pictures).arg(&axe);
        call.limit(Duration::from_secs(1200)).show(Show::Everything).run()
    })
}

/// The file of axe-core, at the version that `playground/browser/axe` names, from the npm registry.
fn axe_core(root: &Path) -> Result<PathBuf> {
    let folder = root.join(".tidelock/axe");
    std::fs::create_dir_all(&folder).when(|| format!("make the folder {}", folder.display()))?;
    for file in ["package.json", "package-lock.json"] {
        let named = root.join("playground/browser/axe").join(file);
        std::fs::copy(&named, folder.join(file)).when(|| format!("copy {}", named.display()))?;
    }
    let npm = need("npm", "npm")?;
    let install = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
    Call::new(&npm).args(install).dir(&folder).limit(Duration::from_secs(120)).run()?.required()?;
    Ok(folder.join("node_modules/axe-core/axe.min.js"))
}

/// Measures the page. False: a limit was missed.
pub(crate) fn bench(root: &Path) -> Result<bool> {
    let run = |program: &Path, driver: &str, page: &str| {
        Call::new(program).args(["bench", driver, page]).interactive()
    };
    with_page(root, &Programs::alone(root)?, run)
}

fn with_page<T>(
    root: &Path,
    programs: &Programs,
    run: impl FnOnce(&Path, &str, &str) -> Result<T>,
) -> Result<T> {
    let folder = Scratch::new("page")?;
    build_with(programs.path("playground-bindings")?, root, folder.path())?;
    without_module(folder.path())?;
    let served = Served::on(0, BELOW, folder.path())?;
    let driver = Driver::start()?;
    run(programs.path("playground-browser")?, &driver.url, served.url())
}

/// The same page below it without its module: what a visitor sees then is checked, too.
fn without_module(folder: &Path) -> Result<()> {
    let broken = folder.join("broken");
    std::fs::create_dir_all(&broken).when(|| format!("make the folder {}", broken.display()))?;
    for file in place::files_below(folder) {
        let name = file.file_name().unwrap_or_default();
        if file.extension().is_some_and(|extension| extension != "wasm") && file.parent() == Some(folder) {
            std::fs::copy(&file, broken.join(name)).when(|| format!("copy {}", file.display()))?;
        }
    }
    Ok(())
}

/// Where the pictures of the lessons are written.
pub(crate) fn pictures() -> Result<PathBuf> {
    Ok(place::root()?.join(".tidelock/playground"))
}
