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
    assert_eq!(names, ["own", "hot", "handoff", "procs", "sale", "held", "cohort", "crowds"].map(Some));
    let cases = scenarios[0]["cases"].as_array().expect("a list").iter();
    for case in cases.filter(|case| case["unit"] == "a second") {
        assert_eq!(case["counts"]["commands"], 2.0, "one to take and one to give back: {case}");
        assert!(case["ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{case}");
    }
    for between_processes in [&scenarios[3], &scenarios[7]] {
        let note = between_processes["notes"][0].as_str();
        assert!(note.is_some_and(|why| why.starts_with("not measured: ")), "{note:?}");
    }
    is_beside_linger_zero(&scenarios[6]);
}

fn is_beside_linger_zero(cohort: &serde_json::Value) {
    assert_eq!(cohort["twin"], "linger zero");
    let cases = cohort["cases"].as_array().expect("a list");
    let case = |name: &str| {
        let found = cases.iter().find(|case| case["case"] == name);
        found.unwrap_or_else(|| panic!("there is no case `{name}`: {cohort}"))
    };
    let commands = |name| case(name)["counts"]["commands"].as_f64().expect("it is counted");
    assert_eq!(commands("1 task of 1 client"), 2.0, "one to take and one to give back, also with linger");
    assert!(commands("64 tasks of 1 client") < 1.0, "a hold that is passed on asks the store nothing");
    let rush = case("rush of 10000 buyers");
    assert!(rush["ours"]["median"].as_f64().is_some_and(|seconds| seconds > 0.0), "{rush}");
    let memory = case("10000 tasks in line, memory of each, beside tokio::sync::Mutex");
    assert!(memory["ratio"]["median"].as_f64().is_some_and(|ratio| ratio > 0.0), "{memory}");
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
    obeys("contend 20 bench:procs", 2, |rate| matches!(rate, [rate] if *rate > 0.0));
}

#[test]
fn a_worker_with_a_crowd_answers_with_its_rate_and_its_waits() {
    let is_plausible = |answer: &[f64]| match answer {
        [rate, p50, p99, longest] => *rate > 0.0 && p50 <= p99 && p99 <= longest,
        _ => false,
    };
    obeys("crowd 4 1 10 20 bench:crowds", 2, is_plausible);
}

#[test]
fn workers_that_stand_answer_with_the_memory_of_a_waiter() {
    for task in ["stand 10000 10", "stand-bare 10000"] {
        obeys(task, 1, |bytes| matches!(bytes, [bytes] if (100.0..10_000.0).contains(bytes)));
    }
}

/// A worker with this task answers so many commands with numbers like these.
fn obeys(task: &str, commands: usize, is_plausible: fn(&[f64]) -> bool) {
    let mut command = bench();
    let worker = command.args(["--worker", task]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut worker = worker.spawn().expect("it starts");
    let mut orders = worker.stdin.take().expect("it listens");
    let mut answers = BufReader::new(worker.stdout.take().expect("it speaks")).lines();
    let mut answer = || answers.next().expect("it answers").expect("it is text");
    assert_eq!(answer(), "ready");
    for _ in 0..commands {
        orders.write_all(b"go\n").expect("it listens");
        let answer = answer();
        let numbers: Result<Vec<f64>, _> = answer.split(' ').map(str::parse).collect();
        assert!(numbers.is_ok_and(|numbers| is_plausible(&numbers)), "{task}: {answer}");
    }
    drop(orders);
    assert!(worker.wait().expect("it ends").success());
}
