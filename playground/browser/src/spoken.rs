//! The page for those who do not see it: what it says by itself, and what its controls and pictures are called.

use serde_json::json;

use crate::page::{Checking, Page, Result, ensure, same};

type Check = for<'a> fn(&'a Page) -> Checking<'a>;

pub(crate) const ALL: &[(&str, Check)] = &[
    ("the lanes are there as a table and as a sentence", |page| Box::pin(spoken(page))),
    ("the name of the lanes belongs to the run that is shown", |page| Box::pin(names(page))),
    ("what decides a run is said when it happens, and the time is not", |page| Box::pin(heard(page))),
    ("sliders have units, and the samples of the legend have names", |page| Box::pin(named(page))),
];

/// Everything that live regions say from now on, with its time.
const LISTEN: &str = "window.heard = []; \
    for (const region of document.querySelectorAll('[role=status], [role=alert], [role=log], output, [aria-live=polite]')) \
    new MutationObserver(() => heard.push(region.textContent.trim())).observe(region, { childList: true, characterData: true, subtree: true })";

const LANES: &str = "return document.getElementById('lanes').getAttribute('aria-label')";

async fn spoken(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=40").await?;
    page.ask("document.getElementById('as-table').open = true").await?;
    page.until("the table is filled", "return document.querySelectorAll('#rows tr').length === 3").await?;
    let label = page.said(LANES).await?;
    ensure(label.contains("c1") && label.contains("sold"), || format!("the lanes say: {label}"))?;
    let row = page.said("return document.querySelector('#rows tr').textContent").await?;
    ensure(row.contains("c1"), || format!("the table says: {row}"))
}

async fn names(page: &Page) -> Result<()> {
    page.load("#lesson=pause").await?;
    page.settle().await?;
    let label = page.said(LANES).await?;
    ensure(label.contains("0 sold of 10"), || format!("while it runs, the lanes say: {label}"))?;
    page.play_its_end().await?;
    let label = page.said(LANES).await?;
    ensure(label.contains("11 sold of 10"), || format!("at its end, the lanes say: {label}"))?;
    for (before, sold) in [("11 sold of 10", "10 sold of 10"), ("10 sold of 10", "11 sold of 10")] {
        page.click("next").await?;
        page.settle().await?;
        let label = page.said(LANES).await?;
        ensure(label.contains("running") && !label.contains(before), || {
            format!("the next lesson runs, and the lanes say: {label}")
        })?;
        page.play_its_end().await?;
        let label = page.said(LANES).await?;
        ensure(label.contains(sold), || format!("the next lesson is over, and the lanes say: {label}"))?;
    }
    page.press("\u{E011}").await?; // the key Home
    page.press(" ").await?;
    page.until("it has begun", "return playground.state.count > 20").await?;
    page.press(" ").await?;
    let (label, now) =
        (page.said(LANES).await?, page.number("return Math.round(playground.state.now)").await?);
    ensure(label.contains(&format!("at {now} ms")), || format!("paused at {now} ms, the lanes say: {label}"))
}

async fn heard(page: &Page) -> Result<()> {
    for (lesson, wanted) in [
        (
            "fenced",
            &["Two believe that they hold", "The fence refuses c1's write: its token 3 is older than 10"][..],
        ),
        (
            "unfenced",
            &[
                "Two believe that they hold",
                "c1, a stale holder, overwrites 2 with 7",
                "That is order 11 for 10",
            ],
        ),
        ("failover", &["Above: ", "Below: "]),
    ] {
        page.load(&format!("#lesson={lesson}&at=0")).await?;
        page.ask(LISTEN).await?;
        page.play_out().await?;
        let heard = page.ask("return window.heard").await?;
        let heard: Vec<&str> =
            heard.as_array().into_iter().flatten().filter_map(|one| one.as_str()).collect();
        for sentence in wanted {
            ensure(heard.iter().any(|one| one.contains(sentence)), || {
                format!("{lesson}: not {sentence:?}, but {heard:?}")
            })?;
        }
        ensure(!heard.iter().any(|one| one.ends_with(" ms")), || {
            format!("{lesson}: the time is said: {heard:?}")
        })?;
        ensure(heard.len() < 20, || format!("{lesson}: too much is said: {heard:?}"))?;
    }
    Ok(())
}

async fn named(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=40").await?;
    page.settle().await?;
    let sliders =
        "return ['time', 'speed'].map((id) => document.getElementById(id).getAttribute('aria-valuetext'))";
    let now = page.number("return Math.round(playground.state.now)").await?;
    let end = page.number("return playground.lanes.end").await?;
    same("sliders", &page.ask(sliders).await?, &json!([format!("{now} ms of {end}"), "1×"]))?;
    same(
        "the time's own value",
        &page.number("return Number(document.getElementById('time').value)").await?,
        &now,
    )?;
    page.click("help").await?;
    let unnamed = "return [...document.querySelectorAll('#legend dt')].filter((one) => !one.textContent.trim() && !one.querySelector('[role=img][aria-label]')).length";
    same("samples without a name", &page.number(unnamed).await?, &0.0)
}
