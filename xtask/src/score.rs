//! The score of a run of the conformance suite: its last line, `N passed, N failed, N skipped`.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Score {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Score {
    /// None: the run ended before it printed its score.
    pub(crate) fn of(output: &str) -> Option<Self> {
        output.lines().rev().find(|line| !line.trim().is_empty()).and_then(Self::parse)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut parts = line.trim().split(", ");
        let mut figure = |word: &str| parts.next()?.strip_suffix(word)?.trim_end().parse().ok();
        let score =
            Self { passed: figure("passed")?, failed: figure("failed")?, skipped: figure("skipped")? };
        parts.next().is_none().then_some(score)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_last_line_that_is_a_score_is_one() {
        let score = Score { passed: 96, failed: 1, skipped: 3 };
        assert_eq!(Score::of("pass a\n\n96 passed, 1 failed, 3 skipped\n\n"), Some(score));
        assert_eq!(Score::of("96 passed, 1 failed, 3 skipped\nthread 'main' panicked\n"), None);
        assert_eq!(Score::of("96 passed, 1 failed"), None);
    }
}
