//! The playground in a real browser. `cargo xtask test --only playground` starts what it needs, and runs it.
//!
//! `playground-browser check DRIVER PAGE OUTCOMES FOLDER AXE`: DRIVER is the address of a chromedriver, PAGE that of the
//! page, OUTCOMES a file with what the lessons come to natively, FOLDER where the pictures go, AXE the file of axe-core.
//! Each check prints a line: `ok`, or `FAILED` with the reason. `playground-browser bench DRIVER PAGE` prints the figures.

mod access;
mod bench;
mod checks;
mod lessons;
mod page;
mod spoken;

use std::process::ExitCode;

use page::{Page, Result};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["check", driver, page, outcomes, folder, axe] => check(driver, page, outcomes, folder, axe).await,
        ["bench", driver, page] => bench(driver, page).await,
        _ => {
            Err("usage: playground-browser check DRIVER PAGE OUTCOMES FOLDER AXE | bench DRIVER PAGE".into())
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn check(driver: &str, url: &str, outcomes: &str, folder: &str, axe: &str) -> Result<bool> {
    let mut page = Page::open(driver, url, 1440, 950).await?;
    page.axe = std::fs::read_to_string(axe)?;
    let mut good = true;
    for outcome in lessons::Outcome::all(outcomes)? {
        let name = if outcome.is_lesson() {
            format!("the lesson {} comes to what it says", outcome.id)
        } else {
            format!("the run {} has the same events as natively", outcome.id)
        };
        good &= say(&name, &lessons::check(&page, &outcome, folder).await);
    }
    for (name, check) in checks::ALL.iter().chain(spoken::ALL) {
        good &= say(name, &check(&page).await);
    }
    for (name, check) in access::ALL {
        good &= say(name, &check(&page, folder).await);
    }
    good &= say("the page says nothing in the console", &page.console_is_empty().await);
    page.quit().await?;
    Ok(good)
}

fn say(name: &str, result: &Result<()>) -> bool {
    match result {
        Ok(()) => println!("ok {name}"),
        Err(error) => println!("FAILED {name}: {error}"),
    }
    result.is_ok()
}

async fn bench(driver: &str, url: &str) -> Result<bool> {
    let page = Page::open(driver, url, 1440, 950).await?;
    let good = bench::run(&page).await;
    page.quit().await?;
    good
}
