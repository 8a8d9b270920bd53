//! The figures of the page, on this machine: each with its limit.

use crate::checks;
use crate::page::{Page, Result};

/// 200 clients, a hundred thousand events.
const LARGE: &str = "#run=v2;policy=line;clients=200;stock=90000;hold=5;gap=10;latency=5;end=600000&at=0";
const SMALL: &str = "#run=v2;policy=line;clients=20;stock=90000;hold=5;gap=10;latency=5;end=20000&at=0";

pub(crate) async fn run(page: &Page) -> Result<bool> {
    let mut good = true;
    let mut say = |name: &str, value: f64, unit: &str, limit: f64, is_most: bool| {
        let is_kept = if is_most { value <= limit } else { value >= limit };
        let word = if is_most { "at most" } else { "at least" };
        println!(
            "{} {name}: {value:.1} {unit} ({word} {limit} {unit})",
            if is_kept { "ok" } else { "MISSED" }
        );
        good &= is_kept;
    };
    page.load("#lesson=race").await?;
    page.load("#lesson=race").await?;
    page.until("a frame was drawn", "return performance.getEntriesByName('drawn').length > 0").await?;
    say(
        "first run drawn after",
        page.number("return performance.getEntriesByName('drawn')[0].startTime").await?,
        "ms",
        500.0,
        true,
    );

    let (module, together) = checks::measured(page).await?;
    say("the module, compressed", module / 1000.0, "KB", 60.0, true);
    say("all files, compressed", together / 1000.0, "KB", 150.0, true);

    for (name, link, limit) in [("20 lanes", SMALL, 4.0), ("200 lanes", LARGE, 8.0)] {
        page.load(link).await?;
        let events = page.number("return playground.track.count").await?;
        page.ask("playground.play(true); playground.seek(1); playground.meter.frames.length = 0").await?;
        page.until("200 frames", "return playground.meter.frames.length >= 200 || !playground.state.plays")
            .await?;
        let median = page
            .number(
                "const all = [...playground.meter.frames].sort((a, b) => a - b); return all[all.length >> 1]",
            )
            .await?;
        say(&format!("script per frame, {name}, {events} events, median"), median, "ms", limit, true);
    }
    let scrub = page
        .number(
            "playground.play(false); const { play } = playground.track, count = playground.track.count; let worst = 0; \
             for (let n = 0; n < 60; n++) { const began = performance.now(); play.seek(Math.floor(count * ((n * 37) % 60) / 60)); play.clients(); play.line(); play.figures(); \
             worst = Math.max(worst, performance.now() - began); } return worst",
        )
        .await?;
    say("scrubbing to any moment of it, the slowest of 60", scrub, "ms", 50.0, true);
    let speed = page
        .ask_later(
            "import(new URL('playground.js', location.href)).then(({ Play }) => { const link = playground.track.play.link(); let events = 0; const began = performance.now(); \
             while (performance.now() - began < 1500) { const play = new Play(link); events += play.count(); play.free(); } done(events / (performance.now() - began) / 1000); })",
        )
        .await?;
    say("simulation, 200 lanes", speed.as_f64().unwrap_or(0.0), "million events/s", 1.0, false);
    let hunt = page
        .ask_later(
            "import(new URL('playground.js', location.href)).then(({ Hunt }) => { const began = performance.now(); const hunt = new Hunt('v2;policy=line;clients=4', 0, 0, 0, 0); \
             while (hunt.go_on(1000)); done([performance.now() - began, hunt.states()]); })",
        )
        .await?;
    let states = hunt[1].as_f64().unwrap_or(0.0);
    say(
        &format!("exploring a mutex of 4 clients, {states} states"),
        hunt[0].as_f64().unwrap_or(1e9) / 1000.0,
        "s",
        5.0,
        true,
    );
    Ok(good)
}
