//! Searches from a link: `… --example search -- LINK wrong|oversell|exclusion|loyalty|progress PAUSES CRASHES FAILOVERS`.

use tidelock_playground::{Allowed, Promise, Run, Search, Settings};

fn main() -> Result<(), String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [link, promise, pauses, crashes, failovers] = &args[..] else { return Err("five arguments".to_owned()) };
    let number = |text: &str| text.parse().map_err(|_| format!("{text} is no number"));
    let promise = match promise.as_str() {
        "wrong" => Promise::NoWrongWrite,
        "oversell" => Promise::NoOversell,
        "loyalty" => Promise::Loyalty,
        "exclusion" => Promise::Exclusion,
        _ => Promise::Progress,
    };
    let allowed =
        Allowed { pauses: number(pauses)?, crashes: number(crashes)?, failovers: number(failovers)? };
    let began = std::time::Instant::now();
    let mut search = Search::new(&Settings::read(link)?, promise, allowed);
    while search.go_on(1000) {}
    let (states, steps, took) = (search.states(), search.steps(), began.elapsed());
    println!("{link} {promise:?} {allowed:?}: {states} states, {steps} steps, {took:?}");
    match search.found() {
        None => println!("  kept"),
        Some(found) => {
            let run = Run::new(&found);
            println!("  BROKEN by {}: {:?}", found.write(), run.outcome());
        }
    }
    Ok(())
}
