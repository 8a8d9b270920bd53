//! What the page calls: thin, typed arrays and scalars. Nothing here decides anything.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::lessons::filled;
use crate::machine::Machine;
use crate::policy::POLICIES;
use crate::run::Run;
use crate::search::{Allowed, Promise, Search};
use crate::settings::{Settings, joined};

/// A run that the page shows, and the moment of it that is shown.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Play {
    run: Run,
    moment: Machine,
    count: u32,
    reached: u32,
}

#[wasm_bindgen]
impl Play {
    /// Carries out the run of this link.
    ///
    /// # Errors
    ///
    /// A sentence, if the link is damaged or of another version.
    #[wasm_bindgen(constructor)]
    pub fn new(link: &str) -> Result<Play, String> {
        let run = Run::new(&Settings::read(link)?);
        let moment = run.moment(0);
        Ok(Self { run, moment, count: 0, reached: 0 })
    }

    /// Its link.
    #[must_use]
    pub fn link(&self) -> String {
        self.run.settings().write()
    }

    /// One of its settings.
    #[must_use]
    pub fn get(&self, key: &str) -> String {
        self.run.settings().get(key)
    }

    /// How many events it has.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.run.count()
    }

    /// When it ends.
    #[must_use]
    pub fn end(&self) -> u32 {
        self.run.end()
    }

    /// A number of all its events.
    #[must_use]
    pub fn fingerprint(&self) -> u32 {
        self.run.fingerprint()
    }

    /// All spans, six numbers each: lane, shade, from, to, token, unused.
    #[must_use]
    pub fn spans(&self) -> Vec<u32> {
        let spans = self.run.record.spans.iter();
        spans
            .flat_map(|span| [span.who.into(), span.shade as u32, span.from, span.to, span.token, 0])
            .collect()
    }

    /// All events, six numbers each: when, kind, client, a, b, cause.
    #[must_use]
    pub fn events(&self) -> Vec<u32> {
        let events = self.run.record.events.iter();
        events
            .flat_map(|event| [event.at, event.kind as u32, event.who.into(), event.a, event.b, event.cause])
            .collect()
    }

    /// How many events there were at this time.
    #[must_use]
    pub fn count_at(&self, time: u32) -> u32 {
        self.run.count_at(time)
    }

    /// Goes to the moment after so many events.
    pub fn seek(&mut self, count: u32) {
        if count != self.count {
            let at_hand = (count > self.count).then(|| (self.moment.clone(), self.reached));
            (self.moment, self.reached) = self.run.moment_after(count, at_hand);
            self.count = count;
        }
    }

    /// The clients at this moment, six numbers each: shade, line of the listing, token, rounds, what was read, waits since
    /// (or 4294967295).
    #[must_use]
    pub fn clients(&self) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (who, client) in (0u16..).zip(&self.moment.clients) {
            let program = self.moment.program(who);
            let line = program.steps.get(client.pc).map_or(0, |step| step.0);
            numbers.extend([
                self.moment.shade_of(who) as u32,
                line.into(),
                if self.run.settings().policy.has_line() { client.token() } else { 0 },
                client.rounds,
                client.read.0,
                client.waits_since.unwrap_or(u32::MAX),
            ]);
        }
        numbers
    }

    /// The line at this moment, six numbers each: client, weight, token (0: waits), name, when its session ends, capacity.
    #[must_use]
    pub fn line(&self) -> Vec<u32> {
        let Some(server) = self.moment.servers.first() else { return Vec::new() };
        let mut numbers = Vec::new();
        for (name, line) in server.world.lines() {
            for claim in &line.claims {
                let until = server.world.session(claim.id.session).map_or(0, tidelock_model::Session::until);
                let who = self.moment.lane_of(claim.id);
                let held = who.map_or(0, |who| self.moment.clients[usize::from(who)].token());
                let token = claim.token.map_or(0, |token| {
                    if self.moment.is_grant_of(token, held) { held } else { self.moment.number(token) }
                });
                numbers.extend([
                    who.unwrap_or_else(|| crate::ids::owner(claim.id.session)).into(),
                    claim.weight.get(),
                    token,
                    (*name).into(),
                    server.of_run(until as u32),
                    line.capacity.get(),
                ]);
            }
        }
        numbers
    }

    /// The store's own view at this moment, a line of text for each thing that it keeps.
    #[must_use]
    pub fn store(&self) -> String {
        joined(&self.run.store_view(&self.moment), "\n")
    }

    /// The resource at this moment: stock, sold, initial, accepted, refused, conflicts, wrong, newest token, seated, most
    /// seated, database, cache.
    #[must_use]
    pub fn resource(&self) -> Vec<u32> {
        let it = &self.moment.resource;
        let (stock, fence) = (it.stock.iter().sum(), it.fence.iter().copied().max().unwrap_or(0));
        vec![
            stock,
            it.sold,
            it.initial,
            it.accepted,
            it.refused,
            it.conflicts,
            it.wrong,
            fence,
            it.seated,
            it.most_seated,
            it.database,
            it.cache,
        ]
    }

    /// The figures at this moment, in the order of [`Figures::words`](crate::Figures::words).
    #[must_use]
    pub fn figures(&self) -> Vec<u32> {
        let figures = self.run.figures(self.count, &self.moment);
        figures.words().iter().map(|row| row.1).collect()
    }

    /// The waits so far, three numbers each: when it ended, whose, how long.
    #[must_use]
    pub fn waits(&self) -> Vec<u32> {
        self.run.record.waits.iter().flat_map(|wait| [wait.0, wait.1.into(), wait.2]).collect()
    }

    /// How many of the crowd wait: see [`Run::crowd`].
    #[must_use]
    pub fn crowd(&self) -> Vec<u32> {
        self.run.crowd()
    }

    /// What an event is, in a sentence.
    #[must_use]
    pub fn sentence(&self, event: u32) -> String {
        self.run.sentence(event)
    }

    /// The token that the fence refuses there, and the one with which it was compared; otherwise nothing.
    #[must_use]
    pub fn compared(&self, event: u32) -> Vec<u32> {
        self.run.compared(event).map_or_else(Vec::new, |(token, newest)| vec![token, newest])
    }

    /// The events that led to it, newest first.
    #[must_use]
    pub fn chain(&self, event: u32) -> Vec<u32> {
        self.run.chain(event)
    }

    /// Whether a client can be chosen for its next operation, at the end of a schedule.
    #[must_use]
    pub fn can_step(&self, who: u16) -> bool {
        self.run.last().can_step(who)
    }

    /// The listing of a client's program.
    #[must_use]
    pub fn listing(&self, who: u16) -> String {
        self.moment.program(who).text()
    }
}

/// A search in the background.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Hunt(Search);

#[wasm_bindgen]
impl Hunt {
    /// A search over the clients of this link.
    ///
    /// # Errors
    ///
    /// A sentence, if the link is damaged.
    #[wasm_bindgen(constructor)]
    pub fn new(link: &str, promise: u8, pauses: u8, crashes: u8, failovers: u8) -> Result<Hunt, String> {
        let promise = match promise {
            0 => Promise::NoWrongWrite,
            1 => Promise::NoOversell,
            2 => Promise::Exclusion,
            3 => Promise::Loyalty,
            _ => Promise::Progress,
        };
        Ok(Self(Search::new(&Settings::read(link)?, promise, Allowed { pauses, crashes, failovers })))
    }

    /// Follows so many states. False: it is over.
    pub fn go_on(&mut self, portion: u32) -> bool {
        self.0.go_on(portion)
    }

    /// How many states it has seen.
    #[must_use]
    pub fn states(&self) -> u32 {
        self.0.states()
    }

    /// How many steps it has tried.
    #[must_use]
    pub fn steps(&self) -> u32 {
        self.0.steps()
    }

    /// The link of the shortest run that breaks the promise; empty if there is none.
    #[must_use]
    pub fn found(&self) -> String {
        self.0.found().map_or_else(String::new, |settings| settings.write())
    }
}

/// A lesson's text, with the numbers of its runs to their ends.
#[wasm_bindgen]
#[must_use]
pub fn told(text: &str, run: &Play, beside: &Play) -> String {
    filled(text, &run.run.outcome(), &beside.run.outcome())
}

/// All policies: word and name of each, each ended by a line feed.
#[wasm_bindgen]
#[must_use]
pub fn policies() -> String {
    POLICIES.iter().flat_map(|row| [row.1, "\n", row.2, "\n"]).collect()
}

/// The link with one setting changed.
///
/// # Errors
///
/// A sentence, if the link or the value is damaged.
#[wasm_bindgen]
pub fn changed(link: &str, key: &str, value: &str) -> Result<String, String> {
    let mut settings = Settings::read(link)?;
    settings.set(key, value)?;
    Ok(settings.write())
}

/// The link with one more action, at this time; those after it stay.
///
/// # Errors
///
/// A sentence, if the link is damaged.
#[wasm_bindgen]
pub fn with_action(link: &str, action: &str) -> Result<String, String> {
    let mut settings = Settings::read(link)?;
    let old = settings.get("do");
    let all = if old.is_empty() { action.to_owned() } else { format!("{old},{action}") };
    settings.set("do", &all)?;
    settings.schedule.clear();
    Ok(settings.write())
}
