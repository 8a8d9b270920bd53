//! Builds the folder of static files: the module with its bindings, and the page.
//!
//! The bindings come from `playground-bindings`, a program of its own: the library that writes them takes longer to
//! build than all of xtask.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cargo;
use crate::place;
use crate::setup::rust::WEB;
use crate::trouble::{Result, While};

/// Writes the page into this folder. Builds the program of the bindings, and nothing that only others need.
pub(crate) fn build(root: &Path, folder: &Path) -> Result<()> {
    let programs = cargo::build_programs(root, &["--package", "playground-bindings"], |_| true)?;
    let bindings = programs.first().ok_or("cargo built no playground-bindings")?;
    build_with(&bindings.executable, root, folder)
}

/// The same with this program of the bindings.
pub(super) fn build_with(bindings: &Path, root: &Path, folder: &Path) -> Result<()> {
    let module =
        ["build", "--package", "tidelock-playground", "--lib", "--profile", "playground", "--target", WEB];
    if !cargo::call(root).args(module).interactive()? {
        return Err("the playground's module does not build; see cargo's errors above".into());
    }
    fs::create_dir_all(folder).when(|| format!("make the folder {}", folder.display()))?;
    let wasm = target(root)?.join(WEB).join("playground/tidelock_playground.wasm");
    let call = crate::call::Call::new(bindings).arg(wasm).arg(folder);
    let outcome = call.run()?;
    if !outcome.success() {
        return Err(format!("{}\n{}", outcome.trouble(), outcome.tail(5)).into());
    }
    let page = root.join("playground/page");
    for file in place::files_below(&page) {
        let name = file.strip_prefix(&page).unwrap_or(&file);
        fs::copy(&file, folder.join(name)).when(|| format!("copy {}", file.display()))?;
    }
    Ok(())
}

/// Cargo's target folder.
fn target(root: &Path) -> Result<PathBuf> {
    let call = cargo::call(root).args(["metadata", "--format-version=1", "--no-deps"]);
    let said = call.run()?.required()?.stdout;
    let parsed: tinyjson::JsonValue = said.trim().parse().map_err(|_| "cannot read cargo's metadata")?;
    let folder = parsed["target_directory"].get::<String>().ok_or("cargo names no target folder")?;
    Ok(PathBuf::from(folder))
}
