//! Every lesson in the page comes to what it comes to natively, to the last event, and says it.

use std::fs;

use crate::page::{Page, Result, same};

/// What a lesson comes to natively.
pub(crate) struct Outcome {
    pub(crate) id: String,
    count: f64,
    fingerprint: f64,
    beside: f64,
    told: String,
}

impl Outcome {
    pub(crate) fn all(file: &str) -> Result<Vec<Self>> {
        let text = fs::read_to_string(file)?;
        text.lines().map(|line| Self::of(line).ok_or_else(|| format!("{file} says: {line}").into())).collect()
    }

    fn of(line: &str) -> Option<Self> {
        let parts: Vec<&str> = line.split('\t').collect();
        let [id, count, fingerprint, _, beside, told] = parts[..] else { return None };
        Some(Self {
            id: id.to_owned(),
            count: count.parse().ok()?,
            fingerprint: fingerprint.parse().ok()?,
            beside: beside.parse().ok()?,
            told: told.to_owned(),
        })
    }

    /// The address of a lesson, or of a run that no lesson has.
    fn hash(&self) -> String {
        if self.is_lesson() { format!("#lesson={}", self.id) } else { format!("#run={}", self.id) }
    }

    pub(crate) fn is_lesson(&self) -> bool {
        !self.id.contains(';')
    }

    async fn has_the_same_events(&self, page: &Page) -> Result<()> {
        same("events", &page.number("return playground.track.count").await?, &self.count)?;
        let print = "return playground.state.tracks[0].play.fingerprint()";
        same("fingerprint", &page.number(print).await?, &self.fingerprint)?;
        let beside = "return playground.state.tracks[1]?.play.fingerprint() ?? 0";
        same("fingerprint beside it", &page.number(beside).await?, &self.beside)
    }
}

pub(crate) async fn check(page: &Page, outcome: &Outcome, folder: &str) -> Result<()> {
    page.load(&outcome.hash()).await?;
    if !outcome.is_lesson() {
        return outcome.has_the_same_events(page).await;
    }
    same(
        "answers",
        &page.ask("return document.getElementById('ask').textContent.endsWith('?')").await?,
        &true.into(),
    )?;
    if !outcome.id.starts_with("scheduler") {
        page.play_its_end().await?;
        same("what is told when it has played", &page.text("told").await?, &outcome.told)?;
    }
    page.press("\u{E010}").await?; // the key End
    outcome.has_the_same_events(page).await?;
    if !outcome.id.starts_with("scheduler") {
        same("what is told", &page.text("told").await?, &outcome.told)?;
    }
    page.picture(folder, &outcome.id).await
}
