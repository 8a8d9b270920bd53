//! `conformance --storm`: rounds of a storm, reported one by one.

use std::sync::Arc;
use std::time::Duration;

use super::say::say;
use crate::{Storm, StormCounts, Subject, storm};

/// Storms for this long. Returns whether nothing was broken.
pub(super) fn run(subject: &Arc<dyn Subject>, seed: u64, lasts: Duration) -> bool {
    let mut settings = Storm::new(seed, lasts);
    settings.round = settings.round.max(subject.ttl() * 3);
    say(&format!(
        "a storm over {} for {lasts:?}, in rounds of {:?}, from seed {seed} on (replay a round with --seed)\n",
        subject.name(),
        settings.round
    ));
    let rounds = storm(subject, &settings, &mut |round| say(&round.text()));
    let broken = rounds.iter().filter(|round| round.damage.is_some()).count();
    let sum = |of: fn(&StormCounts) -> usize| -> usize { rounds.iter().map(|round| of(&round.counts)).sum() };
    say(&format!(
        "\n{} rounds, {} claims asked for, {} granted, {} lost, {} faults",
        rounds.len(),
        sum(|counts| counts.asked),
        sum(|counts| counts.granted),
        sum(|counts| counts.lost),
        sum(|counts| counts.faults)
    ));
    if let Some(round) = rounds.iter().find(|round| round.damage.is_some()) {
        let seed = round.seed;
        say(&format!("replay with --seed {seed}: the plan is the same, but not the timing of the machine"));
        say(&format!("FAIL a storm of seed {seed}"));
    }
    say(&format!("{} passed, {broken} failed, 0 skipped", rounds.len() - broken));
    broken == 0
}

/// `90`, `90s`, `20m` or `8h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match text.char_indices().last() {
        Some((end, 's')) => (&text[..end], 1),
        Some((end, 'm')) => (&text[..end], 60),
        Some((end, 'h')) => (&text[..end], 3_600),
        _ => (text, 1),
    };
    let seconds: u64 =
        number.parse().map_err(|_| format!("{text:?} is not a duration: use 90s, 20m or 8h"))?;
    Ok(Duration::from_secs(seconds.saturating_mul(unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_a_unit_or_is_seconds() {
        let seconds = |text| duration(text).map(|time| time.as_secs());
        assert_eq!(
            [seconds("90"), seconds("90s"), seconds("20m"), seconds("8h")],
            [Ok(90), Ok(90), Ok(1_200), Ok(28_800)]
        );
        assert!(seconds("soon").is_err() && seconds("").is_err() && seconds("m").is_err());
    }
}
