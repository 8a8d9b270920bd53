//! Options, tokens and lines as serde reads and writes them.

use std::time::Duration;

use serde_json::{Value, from_value, json, to_value};
use tidelock_core::{ClaimId, ClaimInfo, Kind, Line, Options, SessionId, Token, Weight};

fn read(file: Value) -> Result<Options, String> {
    from_value(file).map_err(|error| error.to_string())
}

#[test]
fn an_empty_file_gives_the_defaults() {
    let options = read(json!({})).expect("nothing is required");
    assert_eq!(format!("{options:?}"), format!("{:?}", Options::new()));
}

#[test]
fn durations_are_texts() {
    let file = json!({
        "ttl": "30s", "first_pause": "500us", "longest_pause": "250ms", "max_hold": "1h 30m", "warn_after": "never", "linger": "10ms",
        "label": "checkout", "namespace": "shop", "replicas": { "count": 2, "within": "100ms" },
    });
    let options = read(file).expect("a good file");
    let expected = Options::new()
        .ttl(Duration::from_secs(30))
        .back_off(Duration::from_micros(500), Duration::from_millis(250))
        .max_hold(Duration::from_secs(90 * 60))
        .warn_after(Duration::MAX)
        .linger(Duration::from_millis(10))
        .label("checkout")
        .namespace("shop")
        .replicas(2, Duration::from_millis(100));
    assert_eq!(format!("{options:?}"), format!("{expected:?}"));
}

#[test]
fn what_is_written_is_read_again() {
    let written = |options: &Options| to_value(options).expect("options can be written");
    let all_set = Options::new()
        .ttl(Duration::from_millis(1_500))
        .max_hold(Duration::MAX)
        .warn_after(Duration::MAX)
        .label("checkout")
        .replicas(1, Duration::from_nanos(1_000_001));
    for options in [Options::new(), all_set] {
        let read_again = read(written(&options)).expect("it was written by us");
        assert_eq!(format!("{read_again:?}"), format!("{options:?}"));
    }
    let defaults = written(&Options::new());
    assert_eq!(defaults["ttl"], "15s");
    assert_eq!(defaults["first_pause"], "20ms");
    assert_eq!(defaults["max_hold"], Value::Null);
    assert_eq!(defaults.get("label"), None, "another process has a label of its own");
    assert_eq!(written(&Options::new().warn_after(Duration::MAX))["warn_after"], "never");
}

#[test]
fn a_mistake_in_a_file_is_an_error_that_names_it() {
    for (file, named) in [
        (json!({ "tll": "30s" }), "tll"),
        (json!({ "ttl": 30 }), "expected a string"),
        (json!({ "ttl": "30" }), "\"15s\""),
        (json!({ "ttl": "soon" }), "soon"),
        (json!({ "max_hold": "-1s" }), "-1s"),
        (json!({ "replicas": { "count": 1 } }), "within"),
        (json!({ "replicas": { "count": 1, "within": "1s", "of": 3 } }), "of"),
    ] {
        let error = read(file.clone()).expect_err("a mistake");
        assert!(error.contains(named), "{file}: {error}");
    }
}

#[test]
fn a_value_out_of_range_is_refused_at_the_check() {
    let options = read(json!({ "ttl": "1ms" })).expect("it can be read");
    assert!(options.check().is_err());
}

#[test]
fn a_token_is_a_number() {
    let token = Token::from_u64((1 << 53) - 1).expect("the greatest token");
    let written = to_value(token).expect("a number");
    assert_eq!(written, json!(9_007_199_254_740_991_u64));
    assert_eq!(from_value::<Token>(written).expect("it was written by us"), token);
    let error = from_value::<Token>(json!(1_u64 << 53)).expect_err("too large");
    assert!(error.to_string().contains("below 2^53"), "{error}");
    assert!(from_value::<Token>(json!(-1)).is_err());
}

#[test]
fn a_line_is_written_for_an_operators_page_and_read_again() {
    let id = |number| ClaimId { session: SessionId::from_bits(0x15f8_c3a0_9be2_d471), number };
    let two = Weight::new(2).expect("two");
    let since = Some(Duration::from_secs(9));
    let claims = vec![
        ClaimInfo::new(id(43), two, Token::from_u64(64), "checkout".to_owned(), since),
        ClaimInfo::new(id(44), Weight::ONE, None, "depot".to_owned(), None),
    ];
    let line = Line::new(Kind::Semaphore, two, claims);
    let written = to_value(&line).expect("a line can be written");
    let expected = json!({
        "kind": "semaphore", "capacity": 2, "claims": [
            { "id": "15f8c3a09be2d471-43", "weight": 2, "token": 64, "label": "checkout", "since": "9s", "behind": 0 },
            { "id": "15f8c3a09be2d471-44", "weight": 1, "token": null, "label": "depot", "since": null, "behind": 0 },
        ],
    });
    assert_eq!(written, expected);
    assert_eq!(from_value::<Line>(written).ok(), Some(line));
    for wrong in [json!("15f8c3a09be2d471"), json!(43)] {
        assert!(from_value::<ClaimId>(wrong).is_err());
    }
    assert!(from_value::<Weight>(json!(0)).is_err());
    assert!(from_value::<Kind>(json!("latch")).is_err());
}
