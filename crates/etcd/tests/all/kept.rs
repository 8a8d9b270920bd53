//! What the server keeps after some operations is what `playground/kept/etcd.txt` says, and so what the playground shows.

use std::sync::Arc;

use tidelock_conformance::callers::Heard;
use tidelock_conformance::scene::{Scene, client, shape};
use tidelock_etcd::backend::Backend;
use tidelock_etcd::etcd_client::{GetOptions, KeyValue};
use tidelock_etcd::{Options, SessionId};

use crate::site::{name, options, plain, store};

const SCENES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../playground/kept/etcd.txt"));

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_has_the_keys_that_the_playground_shows() {
    let scenes = Scene::all(SCENES).unwrap();
    assert!(scenes.len() > 5);
    for (number, scene) in scenes.iter().enumerate() {
        let options: Options = options(&format!("kept {number}"));
        let open =
            async |id: SessionId| store().open(id, &options, Arc::new(Heard::default())).await.unwrap();
        let sessions = scene.play(&name("stock:42"), open).await.unwrap();
        assert_eq!(kept(&options.namespace).await, scene.kept, "{}", scene.title);
        for session in sessions {
            session.close().await.unwrap();
        }
    }
}

/// Every key below the namespace, in the playground's words: lines first.
async fn kept(namespace: &str) -> Vec<String> {
    let got =
        plain().await.get(format!("{namespace}/"), Some(GetOptions::new().with_prefix())).await.unwrap();
    let mut kept: Vec<(bool, i64, String)> = got.kvs().iter().map(|key| told(key, namespace)).collect();
    kept.sort();
    kept.into_iter().map(|(.., line)| shape(&line)).collect()
}

/// Whether it is about a session, where it stands, and the line that tells it.
fn told(key: &KeyValue, namespace: &str) -> (bool, i64, String) {
    let path = key.key_str().unwrap().strip_prefix(namespace).unwrap();
    let parts = path.splitn(3, '/').collect::<Vec<_>>();
    let lease = client(&format!("{:x}", key.lease()));
    let created = key.create_revision();
    match parts[..] {
        [_, "", session] => {
            let (session, what) = session.split_once('/').unwrap();
            (true, created, format!("tidelock//{}/{what}  lease of {lease}", client(session)))
        }
        [_, line, claim] => {
            let (session, what) = claim.split_once('-').unwrap();
            let claim = format!("{}-{what}", client(session));
            (false, created, format!("tidelock/{line}/{claim}  revision {created}, lease of {lease}"))
        }
        _ => panic!("{path}"),
    }
}
