//! What the server keeps after some operations is what `playground/kept/redis.txt` says, and so what the playground
//! shows.

use std::collections::BTreeMap;

use redis::{Connection, FromRedisValue};
use tidelock_conformance::scene::{Scene, client, shape};
use tidelock_redis::{Options, Store};

use crate::site::alone::Alone;
use crate::site::{Caller, command, name, url};

const SCENES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../playground/kept/redis.txt"));

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_has_the_keys_that_the_playground_shows() {
    let scenes = Scene::all(SCENES).unwrap();
    assert!(scenes.len() > 5);
    for scene in scenes {
        let _alone = Alone::new().await;
        let store = Store::open(&url()).unwrap();
        let open = async |id: tidelock_redis::SessionId| {
            Caller::open(&store, id.get(), &Options::new()).await.session
        };
        let sessions = scene.play(&name("stock:42"), open).await.unwrap();
        assert_eq!(kept(), scene.kept, "{}", scene.title);
        for session in sessions {
            session.close().await.unwrap();
        }
    }
}

/// Every key of the server, in the playground's words.
fn kept() -> Vec<String> {
    let mut server = redis::Client::open(url()).unwrap().get_connection().unwrap();
    let mut keys: Vec<String> = ask(&mut server, "KEYS *");
    keys.sort();
    let mut kept = Vec::new();
    for key in keys {
        let lines: Vec<String> = match ask::<String>(&mut server, &format!("TYPE {key}")).as_str() {
            "hash" => {
                kept.push(format!("{key}  hash"));
                let fields: BTreeMap<String, String> = ask(&mut server, &format!("HGETALL {key}"));
                fields.iter().map(|(field, value)| told(field, value)).collect()
            }
            "zset" => {
                kept.push(format!("{key}  sorted set"));
                ask::<Vec<String>>(&mut server, &format!("ZRANGE {key} 0 -1"))
                    .iter()
                    .map(|id| claim(id))
                    .collect()
            }
            other => panic!("{key} is a {other}"),
        };
        kept.extend(lines.iter().map(|line| shape(&format!("  {line}"))));
    }
    kept
}

fn ask<T: FromRedisValue>(server: &mut Connection, words: &str) -> T {
    command(words).query(server).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// A field of a hash: what its letters and its first words mean is in `src/lua/record.rs`.
fn told(field: &str, value: &str) -> String {
    let words: Vec<&str> = value.split([' ', '\n']).collect();
    match field.split_once(':').unwrap_or((field, "")) {
        ("one", _) => one(value),
        ("last", _) => format!("last  token {}", words[0]),
        ("seq", _) => "seq".to_owned(),
        ("line", _) => format!("line  capacity {}, {} of it held", words[0], words[1]),
        ("h", id) => format!("h:{}  weight {}, token {}", claim(id), words[0], words[1]),
        ("s", session) => format!("s:{}  its lifetime", client(session)),
        ("w", id) => format!("w:{}  weight {}", claim(id), words[0]),
        _ => panic!("{field}: {value}"),
    }
}

/// The field of a name that one claim holds: its newest token, the holder, and those who wait for a mutex.
fn one(value: &str) -> String {
    let mut parts = value.split('\n');
    let holder: Vec<&str> = parts.next().unwrap().split(' ').collect();
    let mut told = format!("one  token {}", holder[0]);
    if let Some(id) = holder.get(6) {
        told.push_str(&format!(", {} holds", whose(id)));
    }
    for waiter in parts {
        told.push_str(&format!(", {} waits", whose(waiter.split(' ').nth(3).unwrap())));
    }
    told
}

fn whose(id: &str) -> String {
    client(id.split('-').next().unwrap())
}

fn claim(id: &str) -> String {
    let (session, number) = id.split_once('-').unwrap();
    format!("{}-{number}", client(session))
}
