//! The unit tests of the suite's knowledge of Redis. The suite's program first checks that the server answers, so that a
//! dead server is reported once and not by every trial.

#![cfg(feature = "cluster")]

#[path = "contract/subject/mod.rs"]
mod subject;

use std::net::TcpListener;
use std::time::{Duration, Instant};

use tidelock_conformance::program::{self, Backend};
use tidelock_conformance::subjects::Remote;

/// Long enough for one refused connection; a run of the trials takes minutes.
const SOON: Duration = Duration::from_secs(20);

/// A URL where no server answers.
fn nobody() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    format!("redis://:secret@127.0.0.1:{port}")
}

#[test]
fn where_nobody_answers_nothing_is_tried_and_one_sentence_says_so() {
    let redis = Backend::with_servers("redis", |url| Ok(Remote::new(subject::Redis::at(url)?)));
    for what in [["--seed", "1"], ["--storm", "1s"]] {
        let (url, began) = (nobody(), Instant::now());
        let args = ["conformance", "--url", &url].into_iter().chain(what).map(str::to_owned);
        let args: Vec<String> = args.collect();
        let said = program::run(&redis, args).expect_err("nobody answers").to_string();
        assert_eq!(said.lines().count(), 1, "{said}");
        let sentence = "no trial was run: cannot use the redis at that URL: ";
        assert!(said.starts_with(sentence) && said.contains("127.0.0.1"), "{said}");
        assert!(!said.contains("secret"), "{said}");
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    }
}
