//! Paths: the workspace, and temporary folders that remove themselves.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::trouble::{Result, While};

/// The workspace. The clone may have moved since xtask was built, so the current folder is tried first.
pub(crate) fn root() -> Result<PathBuf> {
    let here = std::env::current_dir().when(|| "find the current folder".into())?;
    let marked = here.ancestors().find(|dir| dir.join("xtask/Cargo.toml").is_file());
    let root = marked
        .map(Path::to_owned)
        .or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned));
    root.filter(|root| root.join("Cargo.toml").is_file())
        .ok_or_else(|| "run this inside the workspace: no folder above this one holds xtask".into())
}

/// The path of the running xtask, for other programs to call. Cargo may have replaced the file since, as the tests do.
/// Linux then adds ` (deleted)` to the path; the new file at the old path works as well.
pub(crate) fn own_program() -> Result<PathBuf> {
    let path = std::env::current_exe().when(|| "find the program xtask".into())?;
    let replaced = path.to_str().and_then(|path| path.strip_suffix(" (deleted)"));
    Ok(replaced.map_or(path.clone(), PathBuf::from))
}

/// Creates a new folder below the system's temporary one.
pub(crate) fn fresh_folder(purpose: &str) -> Result<PathBuf> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let name = format!("tidelock-{purpose}-{}-{}", std::process::id(), since.as_micros() % 1_000_000_000);
    let path = std::env::temp_dir().join(name);
    fs::create_dir_all(&path).when(|| format!("make the folder {}", path.display()))?;
    Ok(path)
}

/// A folder that is removed when this is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new(purpose: &str) -> Result<Self> {
        fresh_folder(purpose).map(Self)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // leftovers in the temporary folder do no harm
    }
}

/// Writes a file, and creates the folders above it.
pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).when(|| format!("make the folder {}", dir.display()))?;
    }
    fs::write(file, text).when(|| format!("write {}", file.display()))
}

/// Every file below a folder, in a stable order, without the output of builds and tools.
pub(crate) fn files_below(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && !path.is_symlink() {
            if !name.starts_with('.') && name != "target" && name != "node_modules" {
                files.extend(files_below(&path));
            }
        } else {
            files.push(path);
        }
    }
    files
}

/// The text of all that a package compiles as its library: its `src`.
pub(crate) fn sources_of(package: &Path) -> Result<String> {
    let files = files_below(&package.join("src"));
    let sources = files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "rs"));
    sources.map(|file| fs::read_to_string(file).when(|| format!("read {}", file.display()))).collect()
}
