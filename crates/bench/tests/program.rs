//! The program itself: it runs, its output can be parsed, and a worker obeys its commands.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

fn bench() -> Command {
    Command::new(env!("CARGO_BIN_EXE_tidelock-bench"))
}

fn run(args: &[&str]) -> Output {
    bench().args(args).output().expect("it starts")
}

#[test]
fn every_scenario_runs_and_is_in_the_json() {
    let file = std::env::temp_dir().join(format!("tidelock-bench-{}.json", std::process::id()));
    let ran = run(&["--short", "--slices", "1", "--json", file.to_str().expect("it is text")]);
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it is ours");
    let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let scenarios = report["scenarios"].as_array().expect("a list");
    let names: Vec<_> = scenarios.iter().map(|scenario| scenario["scenario"].as_str()).collect();
    assert_eq!(names, ["own", "hot", "handoff", "procs", "sale", "held"].map(Some));
    let cases = scenarios[0]["cases"].as_array().expect("a list").iter();
    for case in cases.filter(|case| case["unit"] == "a second") {
        assert_eq!(case["counts"]["commands"], 2.0, "one to take and one to give back: {case}");
        assert!(case["ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{case}");
    }
    assert!(scenarios[3]["notes"][0].as_str().is_some_and(|why| why.starts_with("not measured: ")));
}

#[test]
fn a_url_or_a_flag_that_means_nothing_here_is_refused_in_one_sentence() {
    for (args, sentence) in [
        (["--url", "redis://127.0.0.1"], "bench: this backend is the process's own memory: it has no URL\n"),
        (["--backend", "memory"], "bench: invalid option '--backend'; `--help` shows what there is\n"),
    ] {
        let ran = run(&args);
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(!ran.status.success());
        assert_eq!(said, sentence);
    }
}

#[test]
fn a_worker_contends_on_command_and_ends_with_its_input() {
    let mut command = bench();
    let worker =
        command.args(["--worker", "contend 20 bench:procs"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = worker.spawn().expect("it starts");
    let mut orders = worker.stdin.take().expect("it listens");
    let mut answers = BufReader::new(worker.stdout.take().expect("it speaks")).lines();
    let mut answer = || answers.next().expect("it answers").expect("it is text");
    assert_eq!(answer(), "ready");
    for _ in 0..2 {
        orders.write_all(b"go\n").expect("it listens");
        assert!(answer().parse::<f64>().is_ok_and(|rate| rate > 0.0));
    }
    drop(orders);
    assert!(worker.wait().expect("it ends").success());
}
