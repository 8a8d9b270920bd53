//! The lessons: a ladder in which each rung mends the last bug and bares the next, and some questions beside it.
//!
//! Their texts are in `page/lessons.txt`, which the page loads, so that they are not in the module. A lesson is a link, a
//! question that is asked before it runs, and what its run must come to. The texts name no number that the run does not
//! say itself: `{sold}` and the like are filled in from its figures. What each run must come to is here, and a test
//! checks it.

use crate::run::{Figures, Run};
use crate::settings::Settings;

/// One lesson.
#[derive(Clone, Copy, Debug)]
pub struct Lesson {
    /// Its word in an address.
    pub id: &'static str,
    /// The settings of its run.
    pub link: &'static str,
    /// The settings of a run beside it, in the same seed; or empty.
    pub beside: &'static str,
    /// What happened, and why.
    pub told: &'static str,
}

/// All lessons, in order.
#[must_use]
pub fn lessons() -> Vec<Lesson> {
    include_str!("../page/lessons.txt").split("\n\n").map(Lesson::read).collect()
}

impl Lesson {
    fn read(text: &'static str) -> Self {
        let line = |key: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|line| line.0 == key).map_or("", |line| line.1.trim())
        };
        Self { id: line("id"), link: line("link"), beside: line("beside"), told: line("told") }
    }

    /// Its run, and the run beside it.
    ///
    /// # Errors
    ///
    /// If its link is damaged.
    pub fn runs(&self) -> Result<(Run, Option<Run>), String> {
        let run = Run::new(&Settings::read(self.link)?);
        let beside =
            if self.beside.is_empty() { None } else { Some(Run::new(&Settings::read(self.beside)?)) };
        Ok((run, beside))
    }
}

/// A text with the numbers of these runs in it: `{sold}` is what the first sold, `{sold2}` what the second.
#[must_use]
pub fn filled(text: &str, run: &Figures, beside: &Figures) -> String {
    let mut filled = String::new();
    let mut parts = text.split('{');
    filled.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (word, rest) = part.split_once('}').unwrap_or((part, ""));
        let (word, figures) = word.strip_suffix('2').map_or((word, run), |word| (word, beside));
        match figures.words().iter().find(|row| row.0 == word) {
            Some(row) => filled.push_str(&row.1.to_string()),
            None => filled.push('?'),
        }
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the runs of each lesson must come to: its figures, and those of the run beside it.
    type Claim = fn(&Figures, &Figures) -> bool;

    const CLAIMS: &[(&str, Claim)] = &[
        ("race", |it, _| it.sold == 11 && it.stock == 10 && it.wrong == 1),
        ("locked", |it, _| it.sold == 10 && it.wrong == 0 && it.overlaps == 0),
        ("forgotten", |it, _| it.waiting == 2 && it.sold < 10),
        ("halfway", |it, _| it.waiting == 2 && it.sold < 10),
        ("blind", |it, _| it.sold > 10 && it.overlaps > 1),
        ("look-first", |it, _| it.sold > 10 && it.wrong > 0),
        ("pause", |it, _| it.sold > 10 && it.wrong > 0 && it.overlaps > 0),
        ("fenced", |it, _| it.sold == 10 && it.wrong == 0 && it.refused == 1),
        ("unfenced", |it, _| it.sold > 10 && it.wrong > 0 && it.refused == 0),
        ("half-fence", |it, _| it.wrong == 1 && it.refused == 0),
        ("watchdog", |it, beside| it.sold == 3 && it.wrong == 0 && beside.wrong > 0),
        ("watchdog-dies", |it, _| it.sold == 10 && it.max_wait > 1000 && it.max_wait < 2500),
        ("failover", |it, beside| {
            it.wrong > 0 && it.overlaps > 0 && beside.overlaps > 0 && beside.wrong == 0 && beside.refused > 0
        }),
        ("redlock", |it, _| it.sold > 10 && it.wrong > 0 && it.overlaps > 0),
        ("redlock-restart", |it, _| it.sold > 10 && it.overlaps > 0),
        ("redlock-replica", |it, _| it.sold > 10 && it.overlaps > 0),
        ("herd", |it, beside| it.messages > 2 * beside.messages && it.max_wait > 2 * beside.max_wait),
        ("starving", |it, beside| it.max_wait > 5000 && beside.max_wait < 1500),
        ("unfair", |it, beside| it.max_wait > 2 * beside.max_wait),
        ("nested", |it, beside| it.sold == 0 && it.waiting == 3 && beside.sold == 10),
        ("two-locks", |it, beside| it.sold < 10 && it.waiting == 3 && beside.sold == 10),
        ("commit", |it, beside| it.sold > 10 && it.wrong > 0 && beside.sold == 10),
        ("segments", |it, beside| it.sold == 80 && beside.sold == 80 && it.max_wait > 5 * beside.max_wait),
        ("cohort", |it, beside| {
            let is_quicker = beside.requests * 3 < it.requests && beside.p50 * 2 < it.p50;
            is_quicker && beside.max_wait > it.max_wait && beside.max_wait < 1_300 && beside.wrong == 0
        }),
        ("atomic", |it, beside| it.sold == 10 && it.wrong == 0 && it.messages * 2 < beside.messages),
        ("version", |it, beside| it.sold == 10 && it.wrong == 0 && beside.sold == 10),
        ("cache", |it, beside| it.database != it.cache && beside.database == beside.cache),
        ("tickets", |it, beside| it.most_seated > 3 && beside.most_seated == 3),
        ("flash-sale", |it, _| it.sold == 10 && it.wrong == 0 && it.waiting == 0),
        ("unread", |it, _| it.sold > 10 && it.overlaps > 0),
        ("thread", |it, _| it.sold > 10 && it.overlaps > 0),
        ("scheduler", |it, _| it.sold == 0 && it.waiting == 0),
        ("scheduler-lock", |it, _| it.sold == 0 && it.waiting == 0),
    ];

    #[test]
    fn every_lesson_comes_to_what_it_says() {
        let lessons = lessons();
        assert_eq!(lessons.len(), CLAIMS.len());
        for (lesson, (id, holds)) in lessons.iter().zip(CLAIMS) {
            assert_eq!(lesson.id, *id);
            let (run, beside) = lesson.runs().unwrap();
            let (it, other) = (run.outcome(), beside.map(|run| run.outcome()).unwrap_or_default());
            assert!(holds(&it, &other), "{}: {it:?}, beside: {other:?}", lesson.id);
            let told = filled(lesson.told, &it, &other);
            let is_whole = !told.contains(['{', '?']) || id.starts_with("scheduler"); // filled in by the page, as it is played
            assert!(is_whole && !told.is_empty(), "{}: {told}", lesson.id);
        }
    }

    #[test]
    fn a_link_opens_the_same_run() {
        for lesson in lessons() {
            let (run, _) = lesson.runs().unwrap();
            let again = Run::new(&Settings::read(&run.settings().write()).unwrap());
            assert_eq!(run.fingerprint(), again.fingerprint(), "{}", lesson.id);
            assert_eq!(run.count(), again.count(), "{}", lesson.id);
        }
    }

    #[test]
    fn a_moment_is_the_same_from_either_side() {
        for lesson in lessons().iter().step_by(3) {
            let (run, _) = lesson.runs().unwrap();
            let mut forward = None;
            for count in (0..run.count()).step_by(7) {
                let (machine, reached) = run.moment_after(count, forward.take());
                assert_eq!(machine.key(), run.moment(count).key(), "{}, event {count}", lesson.id);
                forward = Some((machine, reached));
            }
            assert_eq!(run.moment(run.count()).key(), run.last().key());
        }
    }
}
