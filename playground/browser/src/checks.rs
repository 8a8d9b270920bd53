//! What a visitor does, and what must come of it.

use std::time::Duration;

use serde_json::json;

use crate::page::{Checking, Page, Result, ensure, same};

type Check = for<'a> fn(&'a Page) -> Checking<'a>;

pub(crate) const ALL: &[(&str, Check)] = &[
    ("the first view runs by itself, and oversells within seconds", |page| Box::pin(opens_on_a_run(page))),
    ("the stale write is refused by the token, and without the fence the update is lost", |page| {
        Box::pin(fence_off(page))
    }),
    ("step back, then forward, is the same picture", |page| Box::pin(back_and_forth(page))),
    ("a link opened afresh is the same run", |page| Box::pin(link_is_the_run(page))),
    ("an action in the past forks the run, and both can be compared", |page| Box::pin(forks(page))),
    ("a link with another version, or a damaged one, says so", |page| Box::pin(damaged_links(page))),
    ("everything works by keyboard alone", |page| Box::pin(keyboard(page))),
    ("the search finds the shortest race, and keeps Tidelock's promise", |page| Box::pin(search(page))),
    ("a visitor who chooses the order oversells in four steps, and with a lock cannot", |page| {
        Box::pin(scheduler(page))
    }),
    ("a history that a failed trial has saved opens, and says what was broken", |page| {
        Box::pin(history(page))
    }),
    ("a lesson embeds in another page by its link", |page| Box::pin(embeds(page))),
    ("every fault is a mark on the axis, and says what it does", |page| Box::pin(faults(page))),
    ("every kind of lock, every store, every way to come and a crowd can be chosen", |page| {
        Box::pin(choices(page))
    }),
    ("clicking an event answers why, and chooses its client", |page| Box::pin(why(page))),
    ("a hold is passed on inside a process, and says why", |page| Box::pin(cohort(page))),
    ("every badge of a write answers why", |page| Box::pin(badges(page))),
    ("a lesson that has played shows the worst that happened", |page| Box::pin(concludes(page))),
    ("the button says where it leads, and pressed twice passes over no lesson", |page| Box::pin(next(page))),
    ("no button moves while a run plays", |page| Box::pin(stays(page))),
    ("a module that cannot be loaded is a sentence, and not an empty page", |page| Box::pin(no_module(page))),
    ("nothing is loaded from elsewhere, and the policy forbids it", |page| Box::pin(policy(page))),
    ("all files together are small", |page| Box::pin(sizes(page))),
];

const END: &str = "\u{E010}";
const HOME: &str = "\u{E011}";
const LEFT: &str = "\u{E012}";
const RIGHT: &str = "\u{E014}";
const DOWN: &str = "\u{E015}";
const ESCAPE: &str = "\u{E00C}";
const TAB: &str = "\u{E004}";

async fn opens_on_a_run(page: &Page) -> Result<()> {
    page.load("").await?;
    page.until(
        "11 sold of 10",
        "return document.getElementById('score').textContent.startsWith('11 sold of 10')",
    )
    .await?;
    let why = page.text("why-text").await?;
    ensure(why.contains("lost"), || format!("why? {why}"))?;
    same("the button", &page.text("next-text").await?, &"Put a lock on it".to_owned())?;
    page.click("next").await?;
    page.press(END).await?;
    let score = page.text("score").await?;
    ensure(score.starts_with("10 sold of 10"), || format!("with a lock: {score}"))
}

async fn fence_off(page: &Page) -> Result<()> {
    page.load("#lesson=fenced").await?;
    page.press(END).await?;
    let more = page.text("resource-more").await?;
    ensure(more.contains("1 refused by the fence") && !more.contains("lost"), || more.clone())?;
    same("the button", &page.text("next-text").await?, &"Turn the fence off".to_owned())?;
    page.click("next").await?;
    page.press(END).await?;
    let more = page.text("resource-more").await?;
    ensure(more.contains("lost update") && more.contains("0 refused by the fence"), || more.clone())?;
    // The same beside the resource, from the fenced lesson.
    page.load("#lesson=fenced").await?;
    page.ask(
        "const field = document.querySelector('#fence select'); \
         field.value = '0'; field.dispatchEvent(new Event('change', { bubbles: true }));",
    )
    .await?;
    page.press(END).await?;
    let more = page.text("resource-more").await?;
    ensure(more.contains("lost update"), || more.clone())
}

/// Everything that is shown, as one text.
const PICTURE: &str = "return document.getElementById('lanes').toDataURL().length + '|' + \
    ['stock', 'writes', 'resource-more', 'line', 'code', 'store', 'counters', 'score', 'clock'].map((id) => document.getElementById(id).innerHTML).join('|')";

async fn back_and_forth(page: &Page) -> Result<()> {
    for id in ["fenced", "redlock", "herd"] {
        page.load(&format!("#lesson={id}&at=60")).await?;
        page.press(END).await?;
        page.press(HOME).await?;
        for _ in 0..7 {
            page.press(RIGHT).await?;
        }
        let there = page.ask("return playground.state.count").await?;
        page.ask("playground.state.tracks[0].play.chain(0)").await?;
        let before = page.ask(PICTURE).await?;
        page.press(LEFT).await?;
        ensure(page.ask("return playground.state.count").await? != there, || {
            "it did not step back".to_owned()
        })?;
        ensure(page.ask(PICTURE).await? != before, || "a step back shows the same".to_owned())?;
        page.press(RIGHT).await?;
        same("the moment", &page.ask("return playground.state.count").await?, &there)?;
        let after = page.ask(PICTURE).await?;
        ensure(before == after, || format!("{id}: a step back and forward is another picture"))?;
    }
    Ok(())
}

async fn link_is_the_run(page: &Page) -> Result<()> {
    page.load("#lesson=pause&at=100").await?;
    page.press("k").await?;
    page.press(" ").await?;
    page.press("s").await?;
    let link = page.ask("return document.getElementById('share-link').value").await?;
    let print = page.ask("return playground.track.play.fingerprint()").await?;
    page.press(ESCAPE).await?;
    let link = link.as_str().unwrap_or_default().to_owned();
    let hash = link.find('#').map(|at| link[at..].to_owned()).ok_or("the link has no #")?;
    ensure(hash.contains("kill") && hash.contains("pause"), || format!("the link has no actions: {hash}"))?;
    page.load(&hash).await?;
    same("the run", &page.ask("return playground.track.play.fingerprint()").await?, &print)
}

async fn forks(page: &Page) -> Result<()> {
    page.load("#lesson=fenced").await?;
    page.press(END).await?;
    let old = page.number("return playground.track.play.fingerprint()").await?;
    page.ask("playground.seekTime(300)").await?;
    page.press("f").await?;
    page.press(" ").await?;
    ensure(page.number("return playground.track.play.fingerprint()").await? != old, || {
        "the run is the same".to_owned()
    })?;
    let at = page.number("return playground.state.now").await?;
    ensure((300.0..1500.0).contains(&at), || format!("it goes on at {at}"))?;
    page.click("before").await?;
    same(
        "the run before",
        &page.number("return playground.state.tracks[1].play.fingerprint()").await?,
        &old,
    )?;
    page.click("undo").await?;
    same("after undo", &page.number("return playground.track.play.fingerprint()").await?, &old)
}

async fn damaged_links(page: &Page) -> Result<()> {
    for (hash, sentence) in [
        ("#run=v0;policy=redlock;clients=3", "version v0"),
        ("#run=v1;policy=line;clients=100;crowd=1000;hold=60;end=20000", "version v1"),
        ("#run=hello", "damaged"),
        ("#run=v2;policy=redlock;clients=9999", "must be from 1 to 200"),
        ("#lesson=nonsense", "no lesson"),
    ] {
        page.load(hash).await?;
        let said = page.text("trouble").await?;
        ensure(said.contains(sentence), || format!("{hash}: {said}"))?;
    }
    page.load("#run=v0;policy=redlock;clients=3").await?;
    let shown = page.text("lesson-title").await?;
    ensure(shown.starts_with("Redlock"), || format!("the nearest lesson is {shown}"))?;
    // In v1 a crowd was how many people each lane stood for: such a link is old, and the lesson with a crowd is near.
    page.load("#run=v1;policy=line;clients=100;crowd=1000;hold=60;end=20000").await?;
    let shown = page.text("lesson-title").await?;
    ensure(shown.starts_with("Ten items"), || format!("the nearest lesson is {shown}"))
}

async fn keyboard(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=0").await?;
    page.press(" ").await?;
    page.until("it runs", "return playground.state.plays").await?;
    page.press(" ").await?;
    same("paused", &page.ask("return playground.state.plays").await?, &json!(false))?;
    page.press(HOME).await?;
    page.press(RIGHT).await?;
    page.press(RIGHT).await?;
    let count = page.number("return playground.state.count").await?;
    ensure(count > 1.0, || format!("two steps lead to event {count}"))?;
    page.press(DOWN).await?;
    same("chosen", &page.ask("return document.getElementById('who').value").await?, &json!("1"))?;
    page.press("?").await?;
    same("help", &page.ask("return document.getElementById('help-box').open").await?, &json!(true))?;
    page.press(ESCAPE).await?;
    same("help", &page.ask("return document.getElementById('help-box').open").await?, &json!(false))?;
    page.press("n").await?;
    same("next lesson", &page.text("lesson-title").await?, &"The same, without a fence".to_owned())?;
    // Every control can be reached, and shows that it has the focus.
    page.load("#lesson=fenced&at=0").await?;
    let all = page
        .number("return [...document.querySelectorAll('button, select, input, summary, [tabindex=\"0\"]')].filter((one) => one.checkVisibility() && !one.disabled).length")
        .await?;
    page.ask("window.reached = new Set()").await?;
    for _ in 0..80 {
        page.ask("void document.activeElement").await?;
        page.press(TAB).await?;
        page.ask("const it = document.activeElement; if (it !== document.body) window.reached.add(it); window.unseen ??= []; if (it !== document.body && getComputedStyle(it).outlineStyle === 'none') window.unseen.push(it.id || it.textContent)").await?;
    }
    let reached = page.number("return window.reached.size").await?;
    ensure(reached >= all, || format!("{reached} of {all} controls can be reached by Tab"))?;
    same("without a visible focus", &page.ask("return window.unseen").await?, &json!([]))
}

async fn search(page: &Page) -> Result<()> {
    page.load("#lesson=race&at=0").await?;
    page.press("e").await?;
    let set = |policy: &str, clients: u8, pauses: u8, fence: u8, promise: u8| {
        format!(
            "for (const [id, value] of [['policy', '{policy}'], ['clients', {clients}], ['pauses', {pauses}], ['fence', {fence}], ['promise', {promise}]]) document.getElementById('hunt-' + id).value = value;"
        )
    };
    let over = "return document.getElementById('hunt').disabled === false && !document.getElementById('hunt-result').textContent.startsWith('Searching')";
    let cases = [
        (set("none", 2, 0, 0, 0), "Broken, in 4 steps"),
        (set("line", 3, 1, 2, 0), "Kept, in every order"),
        (set("line", 4, 0, 2, 2), "Kept, in every order"),
        (set("cohort", 3, 1, 2, 0), "Kept, in every order"),
        (set("blinddel", 3, 1, 0, 3), "Broken, in 7 steps"),
        (set("line", 3, 1, 0, 0), "Broken, in 7 steps"),
    ];
    for (settings, wanted) in cases {
        page.ask(&settings).await?;
        page.click("hunt").await?;
        page.until("the search is over", over).await?;
        let said = page.text("hunt-result").await?;
        ensure(said.starts_with(wanted), || format!("{settings}: {said}"))?;
    }
    page.click("hunt-open").await?;
    page.press(END).await?;
    let more = page.text("resource-more").await?;
    ensure(more.contains("1 lost update"), || format!("the run that was found: {more}"))
}

async fn scheduler(page: &Page) -> Result<()> {
    page.load("#lesson=scheduler").await?;
    for key in ["1", "2", "1", "2"] {
        page.press(key).await?;
    }
    let told = page.text("told").await?;
    ensure(told.starts_with("Sold 2 times, in 4 steps"), || format!("told: {told}"))?;
    page.click("start-over").await?;
    same("told", &page.text("told").await?, &String::new())?;
    page.click("shortest").await?;
    let told = page.text("told").await?;
    ensure(told.starts_with("Sold 2 times, in 4 steps"), || format!("the shortest way: {told}"))?;
    page.load("#lesson=scheduler-lock").await?;
    page.click("shortest").await?;
    let told = page.text("told").await?;
    ensure(told.starts_with("Sold 2 times, in 7 steps"), || {
        format!("the lock, in the shortest way: {told}")
    })?;
    page.load("#run=v2;policy=line;stock=1;rounds=1;steps=b0").await?;
    for key in ["1", "2", "1", "2", "1", "2", "1", "2", "1", "2"] {
        page.press(key).await?;
    }
    let score = page.text("score").await?;
    ensure(score.starts_with("1 sold of 1"), || format!("with a lock: {score}"))
}

/// Histories as the suite saved them when a trial failed, and the simulation when a world did: on backends and with a core
/// that are broken on purpose.
const SAVED: [(&str, &str, &str); 3] = [
    (
        include_str!("../saved/a-reader-passes.json"),
        "a reader never passes a waiting writer",
        "order: on \"table\" client 2 passed client 1, which was known to wait before client 2 asked",
    ),
    (
        include_str!("../saved/a-permit-too-many.json"),
        "a dead clients permits come back and no more",
        "exclusion: on \"pool\" these hold together but exceed the capacity: client 1, client 2, client 2, client 2",
    ),
    (
        include_str!("../saved/two-hold-in-a-simulated-world.json"),
        "world 21474836610",
        "exclusion: on \"n2\" these hold together but exceed the capacity: client 1, client 2",
    ),
];

async fn history(page: &Page) -> Result<()> {
    page.load("#lesson=race&at=0").await?;
    let open = |text: &str| {
        let text = serde_json::to_string(text).unwrap_or_default();
        format!(
            "const files = new DataTransfer(); files.items.add(new File([{text}], 'history.json')); \
             const field = document.getElementById('history'); field.files = files.files; field.dispatchEvent(new Event('change'));"
        )
    };
    for (text, title, sentence) in SAVED {
        page.ask(&open(text)).await?;
        let shown = format!("return document.getElementById('lesson-title').textContent === '{title}'");
        page.until(title, &shown).await?;
        page.settle().await?;
        same("why", &page.text("why-text").await?, &sentence.to_owned())?;
        // It plays, from its beginning to its end, and steps.
        page.press(HOME).await?;
        page.press(RIGHT).await?;
        page.press(" ").await?;
        page.ask("document.getElementById('speed').value = 4").await?;
        page.until(
            "it has played",
            "return playground.state.now >= playground.lanes.end && !playground.state.plays",
        )
        .await?;
        page.press(END).await?;
        same("why, at the end", &page.text("why-text").await?, &sentence.to_owned())?;
        let line = page.text("line").await?;
        ensure(!line.is_empty(), || "the line is not shown".to_owned())?;
    }
    page.ask(&open("{}")).await?;
    page.until(
        "it is refused",
        "return document.getElementById('trouble').textContent.includes('not a history')",
    )
    .await
}

async fn embeds(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=0").await?;
    page.press("s").await?;
    let frame = page.ask("return document.getElementById('share-frame').value").await?;
    let frame = frame.as_str().unwrap_or_default().to_owned();
    ensure(frame.starts_with("<iframe src=") && frame.contains("#lesson=fenced&embed"), || frame.clone())?;
    page.press(ESCAPE).await?;
    page.load("#lesson=fenced&embed").await?;
    let shown = "const is = (id) => document.getElementById(id).checkVisibility(); return [is('lanes'), is('run'), is('why'), is('whole'), is('scenario'), is('side')]";
    same("what is shown", &page.ask(shown).await?, &json!([true, true, true, true, false, false]))?;
    let whole = page.ask("return document.getElementById('whole').href").await?;
    ensure(whole.as_str().is_some_and(|whole| whole.ends_with("#lesson=fenced")), || format!("{whole}"))
}

async fn faults(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=0").await?;
    let buttons = page.number("return document.querySelectorAll('#faults [data-act]').length").await?;
    ensure(buttons >= 14.0, || format!("{buttons} buttons for faults"))?;
    for number in 0..14 {
        page.load("#run=v2;policy=line;clients=3;seed=2&at=30").await?;
        page.ask(&format!(
            "document.querySelectorAll('#faults [data-act]')[{number}].click(); playground.play(false)"
        ))
        .await?;
        page.settle().await?;
        same("marks", &page.number("return playground.track.acts.length").await?, &1.0)?;
        let said =
            page.ask("const { track } = playground; return track.play.sentence(track.acts[0])").await?;
        ensure(said.as_str().is_some_and(|said| said.len() > 20), || format!("button {number}: {said}"))?;
        ensure(page.ask("return location.hash.includes('do=')").await? == json!(true), || {
            format!("button {number}: the act is not in the link")
        })?;
    }
    Ok(())
}

async fn choices(page: &Page) -> Result<()> {
    for (key, values) in [
        ("kind", &["mutex", "striped", "pages", "seats", "cache"][..]),
        ("flavour", &["push", "watch", "range", "poll"]),
        ("arrival", &["steady", "once", "poisson", "bursts"]),
        ("crowd", &["0", "5000"]),
        ("tasks", &["2", "1"]),
        ("clients", &["1", "200"]),
    ] {
        page.load("#run=v2;policy=line;clients=3;seed=2&at=0").await?;
        for value in values {
            page.ask(&format!(
                "const field = [...document.querySelectorAll('#knobs label')].find((label) => label.dataset.key === '{key}').lastChild; \
                 field.value = '{value}'; field.dispatchEvent(new Event('change', {{ bubbles: true }})); playground.play(false)"
            ))
            .await?;
            page.press(END).await?;
            let script = format!(
                "return [...document.querySelectorAll('#knobs label')].find((label) => label.dataset.key === '{key}').lastChild.value"
            );
            same(key, &page.ask(&script).await?, &json!(value))?;
            same("trouble", &page.text("trouble").await?, &String::new())?;
            let holds = page.number("return playground.track.play.figures()[7]").await?;
            ensure(holds > 3.0, || format!("{key}={value}: the lock was taken {holds} times"))?;
        }
    }
    page.load("#run=v2;policy=line;clients=3;crowd=5000;stock=20&at=0").await?;
    page.press(END).await?;
    same("lanes", &page.number("return playground.track.lanes").await?, &4.0)?;
    let most = page.number("return Math.max(...playground.track.behind)").await?;
    ensure(most > 100.0, || format!("{most} of the crowd wait"))
}

/// Clicks the mark of the first event of this kind and operation in the lanes.
async fn click_mark(page: &Page, kind: u8, op: u8) -> Result<()> {
    page.ask(&format!(
        "const {{ lanes, track }} = playground; let event = 0; while (track.kind(event) !== {kind} || ({op} && track.a(event) !== {op})) event++; \
         const [x, y] = lanes.place(track, lanes.rows(0), event), box = document.getElementById('lanes').getBoundingClientRect(); \
         document.getElementById('lanes').dispatchEvent(new MouseEvent('click', {{ clientX: box.x + Math.round(x), clientY: box.y + Math.round(y), bubbles: true }}));"
    ))
    .await?;
    page.settle().await
}

const DENIED: u8 = 2;
const WRONG: u8 = 14;
const WRITE: u8 = 13;
const CHOSEN: &str = "return [document.getElementById('who').value, document.getElementById('victim').value]";

async fn why(page: &Page) -> Result<()> {
    page.load("#lesson=race&at=99999").await?;
    page.settle().await?;
    click_mark(page, WRONG, 0).await?;
    let said = page.text("why-text").await?;
    ensure(said.contains("old value"), || format!("why? {said}"))?;
    let causes = page.number("return document.querySelectorAll('#why-chain li').length").await?;
    ensure(causes >= 1.0, || format!("{causes} causes"))?;
    // The marks of c1's stale write are far below its lane.
    for (lesson, kind, op) in [("unfenced", WRONG, 0), ("fenced", DENIED, WRITE)] {
        page.load(&format!("#lesson={lesson}&at=99999")).await?;
        page.settle().await?;
        page.ask("const who = document.getElementById('who'); who.value = '1'; who.dispatchEvent(new Event('change'))")
            .await?;
        click_mark(page, kind, op).await?;
        same("chosen", &page.ask(CHOSEN).await?, &json!(["0", "0"]))?;
    }
    Ok(())
}

const PASS: u8 = 19;
const LEADS: u8 = 18;
/// Where a figure is: the requests to the store, and how often a hold was passed on.
const FIGURES: &str =
    "return playground.state.tracks.map((track) => [track.play.figures()[17], track.play.figures()[18]])";

async fn cohort(page: &Page) -> Result<()> {
    page.load("#run=v2;policy=cohort;clients=5;tasks=4;hold=60;gap=60;stock=100&at=99999").await?;
    page.settle().await?;
    click_mark(page, PASS, 0).await?;
    let said = page.text("why-text").await?;
    ensure(
        said.contains("passes the hold on inside its process, to c1.")
            && said.contains("pass 1 of at most 31"),
        || said.clone(),
    )?;
    let causes = page.text("why-chain").await?;
    ensure(causes.contains("holds the lock, with token 32"), || format!("what led to a pass: {causes}"))?;
    click_mark(page, LEADS, 1).await?;
    let said = page.text("why-text").await?;
    ensure(said.starts_with("The linger of 400 ms is over: c1."), || said.clone())?;
    // Who waits inside its process is in the table, and in the line behind the claim of its process.
    page.ask("document.getElementById('as-table').open = true; playground.seekTime(600)").await?;
    page.settle().await?;
    let rows = page.text("rows").await?;
    ensure(rows.contains("c1.4") && rows.contains("waits in its process"), || rows.clone())?;
    let line = page.text("line").await?;
    ensure(line.contains("behind it"), || line.clone())?;
    // The linger can be set, and is in the link.
    for (linger, passes) in [("0", false), ("2000", true)] {
        page.ask(&format!(
            "const field = [...document.querySelectorAll('#knobs label')].find((label) => label.dataset.key === 'linger').lastChild; \
             field.value = '{linger}'; field.dispatchEvent(new Event('change', {{ bubbles: true }})); playground.play(false)"
        ))
        .await?;
        page.press(END).await?;
        let figures = page.ask(FIGURES).await?;
        let passed = figures[0][1].as_u64().unwrap_or(0);
        ensure((passed > 20) == passes && (passed > 0) == passes, || format!("linger {linger}: {figures}"))?;
        let hash = page.ask("return location.hash").await?;
        ensure(hash.as_str().is_some_and(|hash| hash.contains(&format!("linger={linger}"))), || {
            hash.to_string()
        })?;
    }
    // Beside the strict line both have the same tasks, and the store has fewer requests.
    page.load("#run=v2;policy=line;clients=6;hold=40&at=0").await?;
    let shown = "return [...document.querySelectorAll('#knobs label')].find((label) => label.dataset.key === 'linger').checkVisibility()";
    page.ask("document.getElementById('settings').open = true").await?;
    same("the linger of a strict line", &page.ask(shown).await?, &json!(false))?;
    page.ask("const list = document.getElementById('compare'); list.value = 'cohort'; list.dispatchEvent(new Event('change'))")
        .await?;
    page.press(END).await?;
    let tasks = page.ask("return playground.state.tracks.map((track) => track.tasks)").await?;
    same("tasks", &tasks, &json!([3, 3]))?;
    let figures = page.ask(FIGURES).await?;
    let [above, below] = [0, 1].map(|side| figures[side][0].as_f64().unwrap_or(0.0));
    ensure(below * 1.3 < above, || format!("requests above and below: {above}, {below}"))?;
    let counters = page.text("counters").await?;
    ensure(counters.contains("passed on in a process"), || counters.clone())
}

async fn badges(page: &Page) -> Result<()> {
    for (lesson, badge, sentence) in
        [("unfenced", "!", "overwrites 2 with 7"), ("fenced", "✗", "token 3 is older than 10")]
    {
        page.load(&format!("#lesson={lesson}&at=99999")).await?;
        page.settle().await?;
        page.press(LEFT).await?; // another event is asked about
        page.ask(&format!(
            "[...document.querySelectorAll('#writes li')].find((one) => one.textContent === '{badge}').firstElementChild.click()"
        ))
        .await?;
        page.settle().await?;
        let said = page.text("why-text").await?;
        ensure(said.contains(sentence), || format!("{badge}: {said}"))?;
        same("chosen", &page.ask(CHOSEN).await?, &json!(["0", "0"]))?;
    }
    Ok(())
}

async fn concludes(page: &Page) -> Result<()> {
    for (lesson, sentence) in [
        ("pause", "c1, a stale holder, overwrites 4 with 6"),
        ("fenced", "its token 3 is older than 10"),
        ("unfenced", "c1, a stale holder, overwrites 2 with 7"),
    ] {
        page.load(&format!("#lesson={lesson}")).await?;
        page.play_its_end().await?;
        let told = page.text("told").await?;
        ensure(told.contains("sold of 10"), || format!("{lesson} is over, and tells {told:?}"))?;
        let said = page.text("why-text").await?;
        ensure(said.contains(sentence), || format!("{lesson}, at its end: {said}"))?;
    }
    page.load("#lesson=fenced&at=99999").await?;
    page.settle().await?;
    let more = page.text("resource-more").await?;
    let compared = "1 refused by the fence (token 3 is older than 10)";
    ensure(more.contains(compared) && more.contains("newest token now 14"), || more.clone())
}

const ENTER: &str = "\u{E007}";

async fn next(page: &Page) -> Result<()> {
    page.load("#lesson=fenced&at=0").await?;
    let button = page.text("next").await?;
    ensure(button.contains("lesson 9"), || format!("the button says {button:?}"))?;
    page.ask("document.getElementById('next').focus()").await?;
    page.press(ENTER).await?;
    page.press(ENTER).await?;
    same("the lesson", &page.text("lesson-title").await?, &"The same, without a fence".to_owned())?;
    same("the focus", &page.ask("return document.activeElement.id").await?, &json!("lesson-title"))?;
    // The fence can be turned off where the resource is, too.
    let is_there = "return Boolean(document.querySelector('#fence select')?.checkVisibility())";
    same("the fence beside the resource", &page.ask(is_there).await?, &json!(true))?;
    page.load("#lesson=pause&at=0").await?;
    same("a fence for what has no token", &page.ask(is_there).await?, &json!(false))
}

async fn stays(page: &Page) -> Result<()> {
    const PLACES: &str = "return ['answer-0', 'next', 'run', 'victim'].map((id) => Math.round(document.getElementById(id).getBoundingClientRect().top + scrollY))";
    for lesson in ["race", "unfenced", "failover"] {
        page.load(&format!("#lesson={lesson}&at=0")).await?;
        page.press(HOME).await?;
        page.settle().await?;
        let begun = page.ask(PLACES).await?;
        page.play_its_end().await?;
        same(lesson, &page.ask(PLACES).await?, &begun)?;
    }
    Ok(())
}

async fn no_module(page: &Page) -> Result<()> {
    page.load_broken().await?;
    let says = "return document.getElementById('trouble').checkVisibility() && document.getElementById('trouble').textContent.includes('could not be loaded')";
    page.until("a sentence is shown", says).await?;
    page.clear_console().await.map(drop)
}

async fn policy(page: &Page) -> Result<()> {
    page.load("#lesson=race&at=0").await?;
    let elsewhere = page
        .ask("return performance.getEntriesByType('resource').map((one) => one.name).filter((name) => !name.startsWith(location.href.replace(/[^/]*(#.*)?$/, '')))")
        .await?;
    same("loaded from elsewhere", &elsewhere, &json!([]))?;
    page.console_is_empty().await?;
    page.ask("const script = document.createElement('script'); script.textContent = 'window.broken = 1'; document.body.append(script);")
        .await?;
    same("an inline script ran", &page.ask("return window.broken ?? 0").await?, &json!(0))?;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let complaints = page.clear_console().await?;
    ensure(complaints > 0, || "the browser did not complain about an inline script".to_owned())
}

/// The most that the module and all files together may need, compressed.
const MODULE: f64 = 60_000.0;
const TOGETHER: f64 = 150_000.0;

async fn sizes(page: &Page) -> Result<()> {
    let (module, together) = measured(page).await?;
    ensure(module < MODULE, || format!("the module needs {module} bytes, compressed; {MODULE} are allowed"))?;
    ensure(together < TOGETHER, || {
        format!("all files need {together} bytes, compressed; {TOGETHER} are allowed")
    })
}

/// The sizes of the module and of all files, compressed by gzip.
pub(crate) async fn measured(page: &Page) -> Result<(f64, f64)> {
    page.load("#lesson=race&at=0").await?;
    // All that a visitor loads, and what a search loads; the module last.
    let script = "const loaded = performance.getEntriesByType('resource').map((one) => new URL(one.name).pathname.split('/').at(-1)), module = 'playground_bg.wasm'; \
        const names = [...new Set(['', 'icon.svg', 'explore.js', ...loaded])].filter((name) => name !== module).concat(module); \
        (async () => { const sizes = []; for (const name of names) { const body = (await fetch(name)).body.pipeThrough(new CompressionStream('gzip')); \
        sizes.push((await new Response(body).arrayBuffer()).byteLength); } done([sizes.at(-1), sizes.reduce((sum, one) => sum + one), names.length]); })()";
    let sizes = page.ask_later(script).await?;
    let scripts = page.number("return document.querySelectorAll('link[rel=modulepreload]').length").await?;
    let counted = sizes[2].as_f64().unwrap_or(0.0);
    ensure(counted > scripts, || format!("{counted} files are loaded, {scripts} are to be preloaded"))?;
    Ok((sizes[0].as_f64().unwrap_or(f64::MAX), sizes[1].as_f64().unwrap_or(f64::MAX)))
}
