//! A last line that says how far the benchmark is: `3 of 8: handoff`. Only on a terminal.

use std::io::{IsTerminal, Write};

/// Shows which scenario runs.
pub(crate) fn show(number: usize, of: usize, name: &str) {
    write(&format!("{number} of {of}: {name}"));
}

/// Removes the line, so that something else can be printed.
pub(crate) fn clear() {
    write("\r\x1b[K");
}

fn write(text: &str) {
    let mut stdout = std::io::stdout();
    if stdout.is_terminal() {
        let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()); // a terminal that went away
    }
}
