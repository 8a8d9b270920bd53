//! The code that readers copy: every `rust` block of README.md, docs/guide and the crates' own README.md.
//!
//! A new crate is written outside the workspace, with the libraries' packages and tokio as dependencies, like a
//! reader's crate. Each block becomes one of its programs, and is built and run. A block without `main` is put into an
//! async one that may use `?`. Pages show whole programs or such bodies, because lines hidden by `# ` are hidden only
//! on docs.rs. `rust,no_run` is only built, `rust,ignore` is refused, and other languages are skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Job;
use super::fence::{self, Block};
use crate::call::{Call, Show};
use crate::cargo;
use crate::place;
use crate::tally::Tally;
use crate::trouble::{Result, While};

const CRATE: &str = "tidelock-pages";
const LIMIT: Duration = Duration::from_secs(60);

/// A block that becomes a program.
#[derive(Debug, PartialEq, Eq)]
struct Program {
    name: String,
    /// The page and line, for messages.
    origin: String,
    source: String,
    runs: bool,
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
    write_crate(job, &packages.member(CRATE), &programs)?;
    let call = packages.cargo("build").args(["--package", CRATE, "--bins", "--keep-going"]);
    let built = call.arg("--message-format=json-render-diagnostics").show(Show::Stderr).run()?;
    let artifacts = cargo::artifacts(&built.stdout);
    for program in &programs {
        let binary = artifacts.iter().find(|artifact| artifact.target == program.name);
        match try_out(program, binary.map(|artifact| artifact.executable.as_path())) {
            Ok(()) => tally.pass(1),
            Err(trouble) => {
                println!("FAILED {}: {trouble}", program.origin);
                tally.fail(format!("code block {}", program.origin));
            }
        }
    }
    Ok(())
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

fn write_crate(job: &Job, dir: &Path, programs: &[Program]) -> Result<()> {
    let mut manifest = format!(
        "[package]\nname = \"{CRATE}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\n\
         tokio = {{ version = \"1\", features = [\"full\"] }}\n",
    );
    for library in job.workspace.libraries() {
        manifest.push_str(&format!("{} = \"{}\"\n", library.name, library.version));
    }
    place::write(&dir.join("Cargo.toml"), &manifest)?;
    for program in programs {
        place::write(&dir.join(format!("src/bin/{}.rs", program.name)), &program.source)?;
    }
    Ok(())
}

fn try_out(program: &Program, binary: Option<&Path>) -> Result<()> {
    let binary = binary.ok_or("it does not build; see the compiler's errors above")?;
    if !program.runs {
        println!("ok {} (built)", program.origin);
        return Ok(());
    }
    let outcome = Call::new(binary).limit(LIMIT).run()?;
    if !outcome.success() {
        return Err(format!("{}\n{}", outcome.trouble(), outcome.tail(20)).into());
    }
    println!("ok {}", program.origin);
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
