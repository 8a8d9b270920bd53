//! Standard output.

use std::io::Write;

/// Prints a line. If the reader is gone, as behind `| head`, the program exits.
pub(super) fn say(text: &str) {
    if writeln!(std::io::stdout(), "{text}").is_err() {
        std::process::exit(2);
    }
}
