//! The suite first checks that the server answers, so that a dead server is reported once and not by every trial.

#![cfg(feature = "redis")]

use std::net::TcpListener;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Long enough for one refused connection; a run of the trials takes minutes.
const SOON: Duration = Duration::from_secs(20);

fn conformance(args: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_conformance");
    Command::new(program).args(args).output().expect("the program was built for this test")
}

/// A URL where no server answers.
fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    format!("redis://:secret@127.0.0.1:{port}")
}

#[test]
fn where_nobody_answers_nothing_is_tried_and_one_sentence_says_so() {
    for what in [&["--seed", "1"][..], &["--storm", "1s"][..]] {
        let (url, began) = (nobody(), Instant::now());
        let args = [&["--backend", "redis", "--url", &url], what].concat();
        let output = conformance(&args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
        assert_eq!(said.lines().count(), 1, "{said}");
        let sentence = "conformance: no trial was run: cannot use the redis at that URL: ";
        assert!(said.starts_with(sentence) && said.contains("127.0.0.1"), "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}
