//! The table of guarantees in README.md, between two markers that are part of it. It contains what the reports say, and
//! nothing else.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::trouble::{Result, Trouble, While};

const PAGE: &str = "README.md";
const BEGIN: &str = "<!-- guarantees -->";
const END: &str = "<!-- /guarantees -->";
const REMEDY: &str = "update it with `cargo xtask conformance --write-table`";

/// Checks that README.md has exactly this table.
pub(crate) fn check(root: &Path, table: &str) -> Result<()> {
    let page = read(root)?;
    let there = page[place(&page)?].lines();
    let differs = there.zip(table.trim().lines()).find(|(old, new)| old != new);
    if let Some((old, new)) = differs {
        return Err(
            format!("{PAGE}'s table of guarantees is out of date; {REMEDY}:\n- {old}\n+ {new}").into()
        );
    }
    if page[place(&page)?].trim() != table.trim() {
        return Err(format!("{PAGE}'s table of guarantees has missing or extra lines; {REMEDY}").into());
    }
    Ok(())
}

/// Replaces the table in README.md with this one.
pub(crate) fn write(root: &Path, table: &str) -> Result<()> {
    let mut page = read(root)?;
    page.replace_range(place(&page)?, table.trim());
    fs::write(root.join(PAGE), page).when(|| format!("write {PAGE}"))
}

fn read(root: &Path) -> Result<String> {
    fs::read_to_string(root.join(PAGE)).when(|| format!("read {PAGE}"))
}

/// The range of the table, markers included.
fn place(page: &str) -> Result<Range<usize>> {
    let missing =
        || Trouble::from(format!("{PAGE} has no place for the table: add the lines `{BEGIN}` and `{END}`"));
    let begin = page.find(BEGIN).ok_or_else(missing)?;
    let end = page[begin..].find(END).ok_or_else(missing)?;
    Ok(begin..begin + end + END.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{self, Scratch};

    #[test]
    fn what_is_written_is_what_is_checked() {
        let root = Scratch::new("guarantees").unwrap();
        place::write(&root.path().join(PAGE), &format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        let table = format!("{BEGIN}\n| new |\n| rows |\n{END}\n");
        assert!(check(root.path(), &table).is_err());
        write(root.path(), &table).unwrap();
        check(root.path(), &table).unwrap();
        assert_eq!(read(root.path()).unwrap(), format!("before\n{}\nafter\n", table.trim()));
    }

    #[test]
    fn a_page_without_markers_is_not_guessed_at() {
        assert!(place("no table").is_err() && place(BEGIN).is_err());
    }
}
