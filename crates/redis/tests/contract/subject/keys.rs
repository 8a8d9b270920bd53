//! What a stage left behind: its keys and channels, found by its namespace.

use std::collections::BTreeMap;

use redis::aio::MultiplexedConnection;
use redis::cmd;
use tidelock_core::Result;

use super::servers::ask;

/// What an idle name may keep for a while: its newest token, and until when claims are void.
const REMEMBERED: [&str; 2] = ["last", "void"];

/// The prefixes of the keys and channels of a stage: its own namespace, and namespaces within it.
pub(super) fn patterns(namespace: &str) -> [String; 2] {
    [format!("{namespace}:*"), format!("{namespace}.*")]
}

pub(super) async fn scan(connection: &mut MultiplexedConnection, namespace: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for pattern in patterns(namespace) {
        let mut cursor = String::from("0");
        loop {
            let page = cmd("SCAN").arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(1000).to_owned();
            let (next, keys): (String, Vec<String>) = ask(connection, &page).await?;
            found.extend(keys);
            cursor = next;
            if cursor == "0" {
                break;
            }
        }
    }
    Ok(found)
}

/// What is wrong with a key that still exists after every client has left.
pub(super) async fn left_over(connection: &mut MultiplexedConnection, key: String) -> Result<Option<String>> {
    let ttl: i64 = ask(connection, cmd("PTTL").arg(&key)).await?;
    let part = key.rsplit(':').next().unwrap_or_default();
    let is_in_use = match part {
        "held" => {
            let fields: BTreeMap<String, String> = ask(connection, cmd("HGETALL").arg(&key)).await?;
            fields.iter().any(|(field, value)| match field.as_str() {
                "one" => value.split(' ').count() > 2, // the newest token, and how long it is kept
                field => !REMEMBERED.contains(&field),
            })
        }
        // Void claims stay there too, behind all others.
        "line" => {
            0 < ask::<i64>(connection, cmd("ZCOUNT").arg(&key).arg("-inf").arg("(1000000000000000")).await?
        }
        "wait" => true,
        _ => false,
    };
    Ok(match (is_in_use, ttl) {
        (_, -2) => None, // expired since it was listed
        (true, _) => Some(format!("{key} exists: a claim is left in line")),
        (false, -1) => Some(format!("{key} exists and never expires")),
        (false, _) => None,
    })
}
