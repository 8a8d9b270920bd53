//! What the server keeps after some operations is what `playground/kept/mysql.txt` says, and so what the playground
//! shows.

use std::sync::Arc;

use tidelock_conformance::callers::{Heard, name, options};
use tidelock_conformance::scene::{Scene, client, shape};
use tidelock_mysql::backend::Backend;
use tidelock_mysql::{SessionId, Store};

use crate::server::{run, url};

const SCENES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../playground/kept/mysql.txt"));

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_has_the_rows_that_the_playground_shows() {
    let scenes = Scene::all(SCENES).unwrap();
    assert!(scenes.len() > 5);
    let store = Store::open(&url()).unwrap();
    for (number, scene) in scenes.iter().enumerate() {
        // Each scene's sessions are 1, 2 and 3; real ones are never the same.
        run("DELETE FROM tidelock_claim WHERE session BETWEEN 1 AND 9").await;
        let options = options(&format!("kept {number}"));
        let open = async |id: SessionId| store.open(id, &options, Arc::new(Heard::default())).await.unwrap();
        let sessions = scene.play(&name("stock:42"), open).await.unwrap();
        assert_eq!(kept(&options.namespace).await, scene.kept, "{}", scene.title);
        for session in sessions {
            session.close().await.unwrap();
        }
    }
}

/// Every row of this namespace, and of the sessions of a scene, in the playground's words.
async fn kept(namespace: &str) -> Vec<String> {
    let key = format!("CONCAT('{namespace}', x'00', 'stock:42')");
    let lines = run(&format!(
        "SELECT kind, capacity, token, HEX(session), number, waiters FROM tidelock_line WHERE name = {key}"
    ))
    .await;
    let claims = run(&format!(
        "SELECT HEX(session), number, weight, state, token FROM tidelock_claim WHERE name = {key} ORDER BY state, place"
    ))
    .await;
    let sessions = run("SELECT HEX(id) FROM tidelock_session WHERE id BETWEEN 1 AND 9 ORDER BY id").await;
    let mut kept: Vec<String> = lines.iter().map(|row| line(row, !claims.is_empty())).collect();
    kept.extend(claims.iter().map(|row| claim(row)));
    let told = |row: &Vec<String>| format!("tidelock_session  {}, until when it lives", client(&row[0]));
    kept.extend(sessions.iter().map(told));
    kept.iter().map(|line| shape(line)).collect()
}

/// The row of a name. A name that is free says only its newest token.
fn line(row: &[String], is_in_rows: bool) -> String {
    let [kind, capacity, token, session, number, waiters] = row else { panic!("{row:?}") };
    let kind = ["mutex", "read-write", "semaphore"][kind.parse::<usize>().unwrap() - 1];
    let whole = format!("tidelock_line  stock:42, {kind}, capacity {capacity}, token {token}");
    match session.as_str() {
        "0" if is_in_rows => whole,
        "0" => format!("tidelock_line  stock:42, token {token}"),
        _ => format!("{whole}, only holder {}-{number}{}", client(session), waiting(waiters)),
    }
}

/// Each waiter is `SINCE.SESSION.NUMBER:`.
fn waiting(waiters: &str) -> String {
    let waiter = |waiter: &str| {
        let [_, session, number] = waiter.split('.').collect::<Vec<_>>()[..] else { panic!("{waiter}") };
        format!("{}-{number}", client(&format!("{:X}", session.parse::<u64>().unwrap())))
    };
    let waiters: Vec<String> = waiters.split_terminator(':').map(waiter).collect();
    if waiters.is_empty() { String::new() } else { format!(", waiting {}", waiters.join(" ")) }
}

fn claim(row: &[String]) -> String {
    let [session, number, weight, state, token] = row else { panic!("{row:?}") };
    let told = match state.as_str() {
        "0" => format!("state 0 (holds), token {token}"),
        "1" => "state 1 (waits)".to_owned(),
        other => panic!("state {other}"),
    };
    format!("tidelock_claim  stock:42, {}-{number}, weight {weight}, {told}", client(session))
}
