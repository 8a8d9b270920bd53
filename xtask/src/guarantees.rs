//! The tables of guarantees in README.md and docs/guarantees.md, each between two markers that are part of it. They
//! contain what the reports say, and nothing else.

use std::fs;
use std::ops::Range;
use std::path::Path;

use crate::trouble::{Result, Trouble, While};

const REMEDY: &str = "update it with `cargo xtask conformance --write-table`";

/// A page with a table, and the table's markers.
struct Page {
    file: &'static str,
    begin: &'static str,
    end: &'static str,
}

const PAGES: [Page; 2] = [
    Page { file: "README.md", begin: "<!-- promises -->", end: "<!-- /promises -->" },
    Page { file: "docs/guarantees.md", begin: "<!-- guarantees -->", end: "<!-- /guarantees -->" },
];

/// Checks that the pages have exactly these tables.
pub(crate) fn check(root: &Path, tables: &str) -> Result<()> {
    PAGES.iter().try_for_each(|page| page.check(root, tables))
}

/// Replaces the tables in the pages with these.
pub(crate) fn write(root: &Path, tables: &str) -> Result<()> {
    PAGES.iter().try_for_each(|page| page.write(root, tables))
}

impl Page {
    fn check(&self, root: &Path, tables: &str) -> Result<()> {
        let (file, page, new) = (self.file, self.read(root)?, self.table(tables)?);
        let old = &page[self.place(&page)?];
        if let Some((old, new)) = old.lines().zip(new.lines()).find(|(old, new)| old != new) {
            return Err(
                format!("{file}'s table of guarantees is out of date; {REMEDY}:\n- {old}\n+ {new}").into()
            );
        }
        if old != new {
            return Err(format!("{file}'s table of guarantees has missing or extra lines; {REMEDY}").into());
        }
        Ok(())
    }

    fn write(&self, root: &Path, tables: &str) -> Result<()> {
        let mut page = self.read(root)?;
        page.replace_range(self.place(&page)?, self.table(tables)?);
        fs::write(root.join(self.file), page).when(|| format!("write {}", self.file))
    }

    fn read(&self, root: &Path) -> Result<String> {
        fs::read_to_string(root.join(self.file)).when(|| format!("read {}", self.file))
    }

    /// The range of the table on the page, markers included.
    fn place(&self, page: &str) -> Result<Range<usize>> {
        self.marked(page).ok_or_else(|| {
            let Self { file, begin, end } = self;
            format!("{file} has no place for its table: add the lines `{begin}` and `{end}`").into()
        })
    }

    /// This page's table among all tables, markers included.
    fn table<'a>(&self, tables: &'a str) -> Result<&'a str> {
        let place = self.marked(tables).ok_or_else(|| {
            Trouble::from(format!("the conformance suite has printed no table `{}`", self.begin))
        })?;
        Ok(&tables[place])
    }

    fn marked(&self, text: &str) -> Option<Range<usize>> {
        let begin = text.find(self.begin)?;
        let end = begin + text[begin..].find(self.end)? + self.end.len();
        Some(begin..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{self, Scratch};

    /// The text of the pages, each with this as its table.
    fn tables(row: &str) -> [String; 2] {
        PAGES.map(|page| format!("{}\n{row} of {}\n{}", page.begin, page.file, page.end))
    }

    fn lay_out(root: &Path, tables: &[String; 2]) {
        for (page, table) in PAGES.iter().zip(tables) {
            place::write(&root.join(page.file), &format!("before\n{table}\nafter\n")).unwrap();
        }
    }

    #[test]
    fn what_is_written_is_what_is_checked() {
        let root = Scratch::new("guarantees").unwrap();
        lay_out(root.path(), &tables("old"));
        let new = tables("new");
        let printed = new.join("\n\n");
        assert!(check(root.path(), &printed).is_err());
        write(root.path(), &printed).unwrap();
        check(root.path(), &printed).unwrap();
        for (page, table) in PAGES.iter().zip(&new) {
            assert_eq!(page.read(root.path()).unwrap(), format!("before\n{table}\nafter\n"));
        }
    }

    #[test]
    fn each_page_is_checked() {
        for stale in 0..PAGES.len() {
            let root = Scratch::new("stale-guarantees").unwrap();
            let mut there = tables("new");
            there[stale] = tables("old")[stale].clone();
            lay_out(root.path(), &there);
            let trouble = check(root.path(), &tables("new").join("\n")).unwrap_err().to_string();
            assert!(trouble.starts_with(PAGES[stale].file), "{trouble}");
        }
    }

    #[test]
    fn a_page_or_a_print_without_markers_is_not_guessed_at() {
        for page in &PAGES {
            assert!(page.place("no table").is_err() && page.place(page.begin).is_err());
            assert!(page.table("no table").is_err());
        }
    }
}
