//! Reads the lists of seeded faults: `fault check` on each line; `#` begins a comment.
//!
//! A fault is a value of `TIDELOCK_FAULT`, which a program of unit tests reads as it runs. The second word names the
//! check that must catch it.

use std::fs;
use std::path::Path;

use crate::trouble::{Result, While};

/// Makes a program of unit tests run with the fault that it names.
pub(crate) const VARIABLE: &str = "TIDELOCK_FAULT";

/// One seeded fault, and the check that must catch it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) name: String,
    pub(crate) catcher: String,
}

pub(crate) fn load(file: &Path) -> Result<Vec<Fault>> {
    let text = fs::read_to_string(file).when(|| format!("read the faults in {}", file.display()))?;
    parse(&text)
        .map_err(|line| format!("{}, line {line}: expected two words, `fault check`", file.display()).into())
}

/// The faults, or the number of the first bad line.
fn parse(text: &str) -> std::result::Result<Vec<Fault>, usize> {
    let mut faults = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        match words[..] {
            [] => {}
            [name, catcher] => faults.push(Fault { name: name.to_owned(), catcher: catcher.to_owned() }),
            _ => return Err(i + 1),
        }
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_empty_lines_are_passed_over() {
        let faults =
            parse("# the rule's faults\n\nfit_off_by_one exclusion # by weight\n  stale  order\n").unwrap();
        assert_eq!(faults.len(), 2);
        assert_eq!(faults[0], Fault { name: "fit_off_by_one".into(), catcher: "exclusion".into() });
        assert_eq!(faults[1].catcher, "order");
    }

    #[test]
    fn a_line_that_is_no_pair_is_named() {
        assert_eq!(parse("one two\nthree\n"), Err(2));
        assert_eq!(parse("one two three"), Err(1));
    }
}
