//! The code that readers copy: every `rust` block of README.md, docs/guide and the crates' own README.md.
//!
//! New crates are written outside the workspace, with tokio and the packages that the blocks name as dependencies, like a
//! reader's crate. Each block becomes a program of one of them, and is built and run. A block without `main` is put into
//! an async one that may use `?`. Pages show whole programs or such bodies, because lines hidden by `# ` are hidden only
//! on docs.rs. `rust,no_run` is only checked, as rustdoc does, in a crate of its own: they name a server's backend or the
//! suite, which are then not built. What such a block does is run as an example. `rust,ignore` is refused, and other languages are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Job;
use super::fence::{self, Block};
use super::package::Packages;
use crate::call::{Call, Show};
use crate::cargo;
use crate::place;
use crate::tally::Tally;
use crate::trouble::{Result, While};
use crate::workspace::Package;

/// The crate of the blocks that run, and that of the others.
const RUNNING: &str = "tidelock-pages";
const SHOWN: &str = "tidelock-shown-pages";
/// What the pages tell their readers to turn on. With more, tokio and all that uses it would take longer to build.
const TOKIO: &str = "\"macros\", \"rt-multi-thread\", \"time\"";
const LIMIT: Duration = Duration::from_secs(60);
const UNBUILT: &str = "it does not build; see the compiler's errors above";

/// A block that becomes a program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    /// The page and line, for messages.
    origin: String,
    source: String,
    runs: bool,
}

impl Program {
    /// Whether it uses this package.
    fn names(&self, package: &str) -> bool {
        self.source.contains(&format!("{}::", package.replace('-', "_")))
    }
}

pub(super) fn run(job: &Job, tally: &mut Tally) -> Result<()> {
    let mut programs = Vec::new();
    for page in pages(&job.workspace.root) {
        let text = fs::read_to_string(&page).when(|| format!("read {}", page.display()))?;
        let name =
            page.strip_prefix(&job.workspace.root).unwrap_or(&page).to_string_lossy().replace('\\', "/");
        collect(&name, &text, &mut programs, tally);
    }
    if programs.is_empty() {
        return Err("README.md and docs/guide show no Rust".into());
    }
    let packages = job.packages()?;
    let (running, shown): (Vec<_>, Vec<_>) = programs.iter().partition(|program| program.runs);
    write_crate(job, &packages.member(RUNNING), RUNNING, &running)?;
    write_crate(job, &packages.member(SHOWN), SHOWN, &shown)?;
    let built = cargo::artifacts(&compile(packages, "build", RUNNING)?);
    for program in &running {
        let binary = built.iter().find(|artifact| artifact.target == program.name);
        report(program, try_out(binary.map(|artifact| artifact.executable.as_path())), tally);
    }
    let checked = cargo::compiled(&compile(packages, "check", SHOWN)?);
    for program in &shown {
        let is_well = checked.contains(&program.name);
        report(program, if is_well { Ok(()) } else { Err(UNBUILT.into()) }, tally);
    }
    Ok(())
}

/// What cargo says about the programs of this crate, as JSON.
fn compile(packages: &Packages, verb: &str, name: &str) -> Result<String> {
    let call = packages.cargo(verb).args(["--package", name, "--bins", "--keep-going"]);
    Ok(call.arg("--message-format=json-render-diagnostics").show(Show::Stderr).run()?.stdout)
}

fn report(program: &Program, outcome: Result<()>, tally: &mut Tally) {
    match outcome {
        Ok(()) => {
            println!("ok {}{}", program.origin, if program.runs { "" } else { " (checked)" });
            tally.pass(1);
        }
        Err(trouble) => {
            println!("FAILED {}: {trouble}", program.origin);
            tally.fail(format!("code block {}", program.origin));
        }
    }
}

/// README.md, the guide, and the README.md of each crate, which a registry shows.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    pages.extend(place::files_below(&root.join("docs/guide")));
    pages.extend(
        place::files_below(&root.join("crates")).into_iter().filter(|file| file.ends_with("README.md")),
    );
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages
}

/// Collects the programs of one page; a bad fence is a failure.
fn collect(page: &str, text: &str, programs: &mut Vec<Program>, tally: &mut Tally) {
    let blocks = match fence::blocks(text) {
        Ok(blocks) => blocks,
        Err(line) => return tally.fail(format!("{page}, line {line}: this code block is never closed")),
    };
    for block in &blocks {
        match program(page, block) {
            Ok(program) => programs.extend(program),
            Err(why) => tally.fail(format!("{page}, line {}: {why}", block.line)),
        }
    }
}

fn program(page: &str, block: &Block) -> std::result::Result<Option<Program>, &'static str> {
    match (block.language.as_str(), block.attributes.as_slice()) {
        ("" | "rs", _) => return Err("this code block has no language: use `rust`, or `text` for none"),
        ("rust", []) => {}
        ("rust", [only]) if only == "no_run" => {}
        ("rust", _) => {
            return Err("a shown block must build: only `rust` and `rust,no_run` are allowed");
        }
        _ => return Ok(None),
    }
    let letters = page.trim_end_matches(".md").to_lowercase();
    let name = letters.replace(|letter: char| !letter.is_ascii_alphanumeric(), "_");
    Ok(Some(Program {
        name: format!("{name}_line_{}", block.line),
        origin: format!("{page}, line {}", block.line),
        source: whole(&block.body),
        runs: block.attributes.is_empty(),
    }))
}

/// A block as a program of its own.
fn whole(body: &str) -> String {
    if body
        .lines()
        .any(|line| line.trim_start_matches("pub ").trim_start_matches("async ").starts_with("fn main("))
    {
        return format!("#![allow(unused)]\n{body}");
    }
    let has_end = body.trim_end().lines().last().is_some_and(|line| line.trim() == "Ok(())");
    let end = if has_end { "" } else { "Ok(())\n" };
    format!(
        "#![allow(unused)]\n#[tokio::main]\nasync fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {{\n{body}{end}}}\n"
    )
}

fn write_crate(job: &Job, dir: &Path, name: &str, programs: &[&Program]) -> Result<()> {
    let mut manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         tokio = {{ version = \"1\", features = [{TOKIO}] }}\n",
    );
    let is_named = |library: &&Package| programs.iter().any(|program| program.names(&library.name));
    for library in job.workspace.libraries().filter(is_named) {
        manifest.push_str(&format!("{} = \"{}\"\n", library.name, library.version));
    }
    place::write(&dir.join("Cargo.toml"), &manifest)?;
    for program in programs {
        place::write(&dir.join(format!("src/bin/{}.rs", program.name)), &program.source)?;
    }
    Ok(())
}

fn try_out(binary: Option<&Path>) -> Result<()> {
    let outcome = Call::new(binary.ok_or(UNBUILT)?).limit(LIMIT).run()?;
    if !outcome.success() {
        return Err(format!("{}\n{}", outcome.trouble(), outcome.tail(20)).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(page: &str) -> (Vec<Program>, u64) {
        let (mut programs, mut tally) = (Vec::new(), Tally::default());
        collect("docs/guide/a-page.md", page, &mut programs, &mut tally);
        (programs, tally.failed())
    }

    #[test]
    fn rust_becomes_programs_and_other_languages_are_passed_over() {
        let (programs, failed) =
            read("```rust\nlet a = 1;\n```\n```toml\n[x]\n```\n```rust,no_run\nfn main() {}\n```\n");
        assert_eq!(failed, 0);
        assert_eq!(programs.len(), 2);
        assert_eq!(programs[0].name, "docs_guide_a_page_line_1");
        assert!(programs[0].runs && programs[0].source.contains("async fn main()"));
        assert!(!programs[1].runs && !programs[1].source.contains("tokio"));
    }

    #[test]
    fn a_block_names_the_packages_that_it_uses() {
        let (programs, _) = read("```rust\nuse tidelock_redis::Store;\n```\n");
        assert!(programs[0].names("tidelock-redis") && !programs[0].names("tidelock"));
    }

    #[test]
    fn what_would_not_be_built_is_refused() {
        assert_eq!(read("```rust,ignore\nx\n```\n```\nx\n```\n```rust\nx\n").1, 1); // never closed: nothing else counts
        assert_eq!(read("```rust,ignore\nx\n```\n```\nx\n```\n").1, 2);
    }

    #[test]
    fn a_body_may_bring_its_own_end() {
        assert_eq!(whole("Ok(())\n").matches("Ok(())").count(), 1);
        assert_eq!(whole("a();\n").matches("Ok(())").count(), 1);
    }
}
