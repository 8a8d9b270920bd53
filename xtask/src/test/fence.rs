//! Finds the fenced code blocks of a Markdown page.
//!
//! A fence is a line of at least three backticks or tildes. A line of at least as many of the same sign closes it. The
//! text after the opening fence is the language and its attributes. A block in a list is indented; the same indent is
//! removed from its lines.

/// One fenced block.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The line of the opening fence, from 1.
    pub(super) line: usize,
    pub(super) language: String,
    pub(super) attributes: Vec<String>,
    pub(super) body: String,
}

/// All blocks of a page, or the line of a fence that is never closed.
pub(super) fn blocks(page: &str) -> Result<Vec<Block>, usize> {
    let mut found = Vec::new();
    let mut open: Option<(Fence, Block)> = None;
    for (i, line) in page.lines().enumerate() {
        match &mut open {
            None => {
                if let Some((fence, info)) = Fence::opening(line) {
                    open = Some((fence, Block::new(i + 1, info)));
                }
            }
            Some((fence, _)) if fence.is_closed_by(line) => found.extend(open.take().map(|(_, block)| block)),
            Some((fence, block)) => {
                block.body.push_str(fence.unindented(line));
                block.body.push('\n');
            }
        }
    }
    open.map_or(Ok(found), |(_, block)| Err(block.line))
}

impl Block {
    fn new(line: usize, info: &str) -> Self {
        let mut words = info.split([',', ' ']).filter(|word| !word.is_empty()).map(str::to_owned);
        Self {
            line,
            language: words.next().unwrap_or_default(),
            attributes: words.collect(),
            body: String::new(),
        }
    }
}

struct Fence {
    sign: char,
    length: usize,
    indent: usize,
}

impl Fence {
    /// The fence that a line opens, and the text after it.
    fn opening(line: &str) -> Option<(Self, &str)> {
        let text = line.trim_start();
        let sign = text.chars().next().filter(|sign| ['`', '~'].contains(sign))?;
        let info = text.trim_start_matches(sign);
        let length = text.len() - info.len();
        // More backticks after the first: this is inline code, not a fence.
        let is_fence = length >= 3 && !(sign == '`' && info.contains('`'));
        is_fence.then(|| (Self { sign, length, indent: line.len() - text.len() }, info.trim()))
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        text.len() >= self.length && text.chars().all(|sign| sign == self.sign)
    }

    fn unindented<'a>(&self, line: &'a str) -> &'a str {
        let blanks = line.len() - line.trim_start().len();
        &line[blanks.min(self.indent)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_found_with_their_attributes() {
        let page = "# T\n\n```rust,no_run\nlet a = 1;\n```\n~~~~ text\n```rust\nno code\n```\n~~~~\n";
        let found = blocks(page).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].line, found[0].language.as_str()), (3, "rust"));
        assert_eq!(found[0].attributes, ["no_run"]);
        assert_eq!(found[0].body, "let a = 1;\n");
        assert_eq!(found[1].language, "text");
        assert_eq!(found[1].body, "```rust\nno code\n```\n");
    }

    #[test]
    fn a_block_in_a_list_loses_its_indent() {
        let found = blocks("- so:\n  ```sh\n  cargo xtask test\n\n    --deep\n  ```\n").unwrap();
        assert_eq!(found[0].body, "cargo xtask test\n\n  --deep\n");
    }

    #[test]
    fn code_in_a_line_is_no_fence_and_an_open_fence_is_told() {
        assert_eq!(blocks("```inline``` code\n"), Ok(Vec::new()));
        assert_eq!(blocks("text\n```rust\nlet a = 1;\n"), Err(2));
    }
}
