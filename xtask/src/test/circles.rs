//! Circles among the files of a crate: files that need each other can only be read together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::imports::Imports;

/// The shortest circle: each of its files imports the next, and the last imports the first.
pub(super) fn shortest(imports: &Imports) -> Option<Vec<PathBuf>> {
    imports.0.keys().filter_map(|file| circle_through(imports, file)).min_by_key(Vec::len)
}

/// The shortest way from a file back to itself.
fn circle_through(imports: &Imports, start: &Path) -> Option<Vec<PathBuf>> {
    let none = BTreeSet::new();
    let mut came_from: BTreeMap<&Path, &Path> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(file) = next.pop_front() {
        for imported in imports.0.get(file).unwrap_or(&none) {
            if imported == start {
                return Some(way(&came_from, start, file));
            }
            if !came_from.contains_key(imported.as_path()) {
                came_from.insert(imported, file);
                next.push_back(imported);
            }
        }
    }
    None
}

fn way(came_from: &BTreeMap<&Path, &Path>, start: &Path, end: &Path) -> Vec<PathBuf> {
    let mut way = vec![end.to_path_buf()];
    let mut file = end;
    while file != start {
        file = came_from[file];
        way.push(file.to_path_buf());
    }
    way.reverse();
    way
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[(&str, &str)]) -> Option<String> {
        let files = files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned()));
        let circle = shortest(&Imports::of(files))?;
        Some(circle.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn files_that_import_each_other_are_a_circle() {
        let two = [("a.rs", "use crate::b::B;"), ("b.rs", "use crate::a::A;"), ("c.rs", "use crate::a::A;")];
        assert_eq!(circle(&two).as_deref(), Some("a.rs b.rs"));
        let three =
            [("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")];
        assert_eq!(circle(&three).as_deref(), Some("a.rs b.rs c.rs"));
        let none = [("a.rs", "use crate::{b::B, c::C};"), ("b.rs", "use crate::c::C;"), ("c.rs", "")];
        assert_eq!(circle(&none), None);
    }

    #[test]
    fn a_child_that_needs_its_parent_and_is_needed_by_it_is_a_circle() {
        let files = [("a/mod.rs", "mod b; use b::B;"), ("a/b.rs", "use super::A;")];
        assert_eq!(circle(&files).as_deref(), Some("a/b.rs a/mod.rs"));
    }
}
