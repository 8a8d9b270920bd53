//! Small C libraries that are loaded before a server's own, and change what the system tells it.
//!
//! Each is built with the system's C compiler when a server first needs it.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::call::Call;
use crate::trouble::{Result, While};

const LIMIT: Duration = Duration::from_secs(60);

/// The library's path. Builds it unless this source was built before.
pub(super) fn library(home: &Path, name: &str, source: &str) -> Result<PathBuf> {
    if !cfg!(target_os = "linux") {
        return Err("this works on Linux only".into());
    }
    let mut hasher = DefaultHasher::new();
    source.hash(&mut hasher);
    let library = home.join(format!("{name}-{:016x}.so", hasher.finish()));
    if library.to_string_lossy().contains([' ', ':']) {
        return Err(format!("LD_PRELOAD cannot name {}", library.display()).into());
    }
    if !library.is_file() {
        build(&library, source)?;
    }
    Ok(library)
}

fn build(library: &Path, text: &str) -> Result<()> {
    let name = std::process::id();
    let (source, draft) =
        (library.with_extension(format!("{name}.c")), library.with_extension(name.to_string()));
    crate::place::write(&source, text)?;
    let built = Call::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).args([&draft, &source]).arg("-ldl");
    let built = built.limit(LIMIT).run();
    let _ = fs::remove_file(&source);
    let built = built?;
    if !built.success() {
        return Err(format!("{}:\n{}", built.trouble(), built.tail(8)).into());
    }
    fs::rename(&draft, library).when(|| format!("write {}", library.display()))
}
