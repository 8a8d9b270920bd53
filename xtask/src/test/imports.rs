//! Which files of a crate a file of it imports, as far as its text shows it.
//!
//! Every path in the code that begins with `crate`, `super`, `self` or a child module's name is followed to the file that
//! defines its end, through the re-exports on the way. Comments, strings and tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The path of a module in its crate: `[]` is the crate's root.
type Module = Vec<String>;

/// The files of one crate, each with the files that it imports, by their paths below `src`.
#[derive(Debug, Default)]
pub(super) struct Imports(pub(super) BTreeMap<PathBuf, BTreeSet<PathBuf>>);

/// One file, read.
struct Source {
    file: PathBuf,
    /// Paths of `use` declarations that others cannot import from here.
    imported: Vec<Leaf>,
    /// Paths of `pub use` declarations, and the name under which each can be imported.
    exported: Vec<Leaf>,
    /// Paths in the rest of the code.
    named: Vec<Vec<String>>,
    /// All words of the rest of the code.
    words: BTreeSet<String>,
    /// Child modules that are compiled for tests alone.
    tests: BTreeSet<String>,
}

/// The name of everything.
const ALL: &str = "*";

/// The end of one branch of a `use` tree.
#[derive(Debug, PartialEq, Eq)]
struct Leaf {
    path: Vec<String>,
    name: String,
}

impl Imports {
    /// Reads these files, given by their paths below `src` and their text.
    pub(super) fn of(files: impl IntoIterator<Item = (PathBuf, String)>) -> Self {
        let read = |(file, text): (PathBuf, String)| (module_of(&file), Source::read(file, &text));
        let mut modules: BTreeMap<Module, Source> = files.into_iter().map(read).collect();
        let tests: Vec<Module> =
            modules.iter().flat_map(|(module, source)| source.tests_in(module)).collect();
        modules.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
        let edges =
            modules.keys().map(|module| (modules[module].file.clone(), imported_by(&modules, module)));
        Self(edges.collect())
    }
}

/// The files that a module's file imports.
fn imported_by(modules: &BTreeMap<Module, Source>, module: &Module) -> BTreeSet<PathBuf> {
    let source = &modules[module];
    let used = source.exported.iter().filter(|leaf| source.words.contains(&leaf.name));
    let leaves = source.imported.iter().chain(used).map(|leaf| &leaf.path);
    let paths = leaves.chain(&source.named).filter_map(|path| absolute(modules, module, path));
    let files =
        paths.filter_map(|path| definition(modules, path)).map(|module| modules[&module].file.clone());
    files.filter(|file| *file != source.file).collect()
}

/// A path from the crate's root. None: it leads to another crate, or to something in scope.
fn absolute(modules: &BTreeMap<Module, Source>, module: &Module, path: &[String]) -> Option<Module> {
    let (first, rest) = path.split_first()?;
    let from = |module: &[String], rest: &[String]| [module, rest].concat();
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some(from(module, rest)),
        "super" => {
            let ups = path.iter().take_while(|word| *word == "super").count();
            Some(from(module.get(..module.len().checked_sub(ups)?)?, &path[ups..]))
        }
        child => {
            let is_child = modules.contains_key(&from(module, &[child.to_owned()]));
            is_child.then(|| from(module, path))
        }
    }
}

/// The module whose file defines the end of a path.
fn definition(modules: &BTreeMap<Module, Source>, mut path: Module) -> Option<Module> {
    for _ in 0..16 {
        let length = (0..=path.len()).rev().find(|length| modules.contains_key(&path[..*length]))?;
        let (module, rest) = (path[..length].to_vec(), &path[length..]);
        let source = &modules[&module];
        let export = rest.first().and_then(|name| source.exported.iter().find(|leaf| leaf.name == *name));
        let Some(export) = export.filter(|leaf| leaf.path != [leaf.name.as_str()]) else {
            // A name that the file does not contain came there by its `*`, from another crate.
            let has_all = source.exported.iter().any(|leaf| leaf.name == ALL);
            let is_foreign = rest.first().is_some_and(|name| has_all && !source.words.contains(name));
            return (!is_foreign).then_some(module);
        };
        path = [absolute(modules, &module, &export.path)?, rest[1..].to_vec()].concat();
    }
    None
}

fn module_of(file: &Path) -> Module {
    let mut module: Module =
        file.with_extension("").iter().map(|part| part.to_string_lossy().into()).collect();
    if module.last().is_some_and(|last| last == "mod") || module == ["lib"] {
        module.pop();
    }
    module
}

impl Source {
    fn read(file: PathBuf, text: &str) -> Self {
        let tokens = tokens(text);
        let mut source = Self {
            file,
            imported: Vec::new(),
            exported: Vec::new(),
            named: Vec::new(),
            words: BTreeSet::new(),
            tests: BTreeSet::new(),
        };
        let mut rest = tokens.as_slice();
        while !rest.is_empty() {
            rest = source.take(rest);
        }
        source
    }

    fn tests_in(&self, module: &Module) -> impl Iterator<Item = Module> {
        self.tests.iter().map(|test| [module.as_slice(), std::slice::from_ref(test)].concat())
    }

    /// Reads the next thing, and returns the tokens after it.
    fn take<'a>(&mut self, tokens: &'a [String]) -> &'a [String] {
        if let Some(item) = after_test_attribute(tokens) {
            return self.skip_test(item);
        }
        if tokens[0] == "use" {
            let end = tokens.iter().position(|token| token == ";").unwrap_or(tokens.len());
            self.imported.extend(leaves(&tokens[1..end]));
            return &tokens[end..];
        }
        if let Some(declaration) =
            after_pub(tokens).filter(|rest| rest.first().is_some_and(|word| word == "use"))
        {
            let end = declaration.iter().position(|token| token == ";").unwrap_or(declaration.len());
            self.exported.extend(leaves(&declaration[1..end]));
            return &declaration[end..];
        }
        if let [word, _, end, ..] = tokens
            && word == "mod"
            && end == ";"
        {
            return &tokens[3..];
        }
        if !is_word(&tokens[0]) {
            return &tokens[1..];
        }
        let path = path_at(tokens);
        let length = path.len() * 2 - 1;
        self.words.insert(path[0].clone());
        if path.len() > 1 {
            self.named.push(path);
        }
        &tokens[length..]
    }

    /// Skips an item that is compiled for tests alone, up to its `;` or the end of its block.
    fn skip_test<'a>(&mut self, item: &'a [String]) -> &'a [String] {
        if let [word, name, end, ..] = item
            && word == "mod"
            && end == ";"
        {
            self.tests.insert(name.clone());
        }
        let mut depth = 0;
        for (index, token) in item.iter().enumerate() {
            match token.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                ";" => {}
                _ => continue,
            }
            if depth <= 0 {
                return &item[index + 1..];
            }
        }
        &[]
    }
}

/// The item behind `#[cfg(test)]` and its like.
fn after_test_attribute(tokens: &[String]) -> Option<&[String]> {
    if !matches!(tokens, [hash, open, cfg, ..] if hash == "#" && open == "[" && cfg == "cfg") {
        return None;
    }
    let end = tokens.iter().position(|token| token == "]")?;
    let is_named = |at: usize| tokens[at] == "test" || tokens[at] == "loom";
    let is_denied = |at: usize| tokens[at - 2] == "not";
    (3..end).any(|at| is_named(at) && !is_denied(at)).then_some(&tokens[end + 1..])
}

/// What follows `pub` or `pub(crate)`.
fn after_pub(tokens: &[String]) -> Option<&[String]> {
    let rest = tokens.strip_prefix(&["pub".to_owned()])?;
    if rest.first().is_none_or(|token| token != "(") {
        return Some(rest);
    }
    let end = rest.iter().position(|token| token == ")")?;
    Some(&rest[end + 1..])
}

/// The ends of a `use` tree.
fn leaves(tree: &[String]) -> Vec<Leaf> {
    let path = path_at(tree);
    let rest = &tree[(path.len() * 2).saturating_sub(1).min(tree.len())..];
    match rest {
        [] => leaf(path, None),
        [word, name] if word == "as" => leaf(path, Some(name)),
        [.., star] if star == ALL => vec![Leaf { path, name: ALL.to_owned() }],
        [colons, open, inner @ .., close] if colons == "::" && open == "{" && close == "}" => {
            branches(inner).into_iter().flat_map(leaves).map(|leaf| leaf.below(&path)).collect()
        }
        [open, inner @ .., close] if open == "{" && close == "}" => {
            branches(inner).into_iter().flat_map(leaves).collect()
        }
        _ => Vec::new(),
    }
}

fn leaf(path: Vec<String>, name: Option<&String>) -> Vec<Leaf> {
    let name = name.or(path.last()).cloned();
    name.map(|name| Leaf { path, name }).into_iter().collect()
}

impl Leaf {
    /// `{self}` names the module itself.
    fn below(self, path: &[String]) -> Self {
        if self.path == ["self"] {
            let name = if self.name == "self" { path.last().cloned().unwrap_or_default() } else { self.name };
            return Self { path: path.to_vec(), name };
        }
        Self { path: [path, &self.path].concat(), name: self.name }
    }
}

/// The parts between the commas that are in no braces.
fn branches(inner: &[String]) -> Vec<&[String]> {
    let mut depth = 0;
    let is_border = |token: &String| {
        match token.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token == ","
    };
    inner.split(is_border).filter(|branch| !branch.is_empty()).collect()
}

/// The words at the front that are joined by `::`.
fn path_at(tokens: &[String]) -> Vec<String> {
    let mut path = Vec::new();
    let mut rest = tokens;
    while let Some(word) = rest.first().filter(|token| is_word(token)) {
        path.push(word.clone());
        match rest {
            [_, colons, next, ..] if colons == "::" && is_word(next) => rest = &rest[2..],
            _ => break,
        }
    }
    path
}

fn is_word(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphanumeric() || first == '_')
}

/// Words, `::`, and single other characters, without comments, strings and spaces.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            string_length(rest)
        } else if let Some(length) = character_length(rest) {
            length
        } else if is_word(rest) {
            let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    let is_end = |(index, c): &(usize, char)| {
        let ends = *index > 0 && *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    };
    text.char_indices().find(is_end).map_or(text.len(), |(index, _)| index + 1)
}

/// The length of a character literal, which may be a quote or a brace. A lifetime is none.
fn character_length(text: &str) -> Option<usize> {
    let inner = text.strip_prefix('\'')?;
    let first = inner.chars().next()?;
    let length = if first == '\\' { 1 + inner[1..].chars().next()?.len_utf8() } else { first.len_utf8() };
    inner[length..].starts_with('\'').then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imports(files: &[(&str, &str)]) -> Vec<(String, Vec<String>)> {
        let files = files.iter().map(|(file, text)| (PathBuf::from(file), (*text).to_owned()));
        let shown = |path: &PathBuf| path.display().to_string();
        let Imports(edges) = Imports::of(files);
        let edges = edges.iter().map(|(file, to)| (shown(file), to.iter().map(shown).collect()));
        edges.filter(|(_, to): &(String, Vec<String>)| !to.is_empty()).collect()
    }

    fn arrow(from: &str, to: &[&str]) -> (String, Vec<String>) {
        (from.to_owned(), to.iter().map(|to| (*to).to_owned()).collect())
    }

    #[test]
    fn every_branch_of_a_use_is_an_import() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::{b::{self, X as Y}, c::*};\nfn f() { crate::d::go() }"),
            ("b.rs", ""),
            ("c.rs", ""),
            ("d.rs", "use std::fmt;"),
        ]);
        assert_eq!(found, [arrow("a.rs", &["b.rs", "c.rs", "d.rs"])]);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_defines_the_name() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; pub use a::Named;"),
            ("a/mod.rs", "mod inner; pub(crate) use inner::Named;"),
            ("a/inner.rs", ""),
            ("b.rs", "use crate::Named;"),
        ]);
        assert_eq!(found, [arrow("b.rs", &["a/inner.rs"])]);
    }

    #[test]
    fn a_name_from_another_crate_is_no_import() {
        let found = imports(&[
            ("lib.rs", "mod a; mod b; pub use other::Named; pub use another::*; fn f() { a::go() }"),
            ("a.rs", "use crate::Named; use crate::Starred; fn go() {}"),
            (
                "b.rs",
                "macro_rules! ensure { () => {} } pub(crate) use ensure; fn f() { crate::b::ensure!() }",
            ),
        ]);
        assert_eq!(found, [arrow("lib.rs", &["a.rs"])]);
    }

    #[test]
    fn a_re_export_that_is_also_used_is_an_import() {
        let found = imports(&[
            ("a.rs", "mod inner; pub(crate) use inner::Named; fn f(named: Named) {}"),
            ("a/inner.rs", "use super::Other;"),
        ]);
        assert_eq!(found, [arrow("a/inner.rs", &["a.rs"]), arrow("a.rs", &["a/inner.rs"])]);
    }

    #[test]
    fn tests_comments_and_strings_import_nothing() {
        let found = imports(&[
            ("lib.rs", "#[cfg(test)]\nmod tested;\nmod a;\nmod b;"),
            (
                "a.rs",
                "// crate::b\nconst B: &str = \"\\\"crate::b\"; #[cfg(test)]\nmod tests { use crate::b; }",
            ),
            ("b.rs", ""),
            ("tested.rs", "use crate::b;"),
        ]);
        assert_eq!(found, []);
    }

    #[test]
    fn what_is_compiled_for_some_tests_alone_is_a_test_and_what_is_left_out_of_tests_is_none() {
        let found = imports(&[
            ("a.rs", "#[cfg(all(test, not(slow)))]\nmod tests { use crate::b; }"),
            ("b.rs", "#[cfg(not(test))]\nuse crate::a;"),
        ]);
        assert_eq!(found, [arrow("b.rs", &["a.rs"])]);
    }
}
