//! What the server keeps after some operations is what `playground/kept/zookeeper.txt` says, and so what the playground
//! shows.

use std::sync::Arc;

use tidelock_conformance::callers::Heard;
use tidelock_conformance::scene::{Scene, client, shape};
use tidelock_zookeeper::backend::Backend;
use tidelock_zookeeper::{Options, SessionId};
use zookeeper_client::Client;

use crate::site::{name, options, plain, store};

const SCENES: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../playground/kept/zookeeper.txt"));

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_name_has_the_nodes_that_the_playground_shows() {
    let scenes = Scene::all(SCENES).unwrap();
    assert!(scenes.len() > 5);
    let server = plain().await;
    for (number, scene) in scenes.iter().enumerate() {
        let options: Options = options(&format!("kept {number}"));
        let open =
            async |id: SessionId| store().open(id, &options, Arc::new(Heard::default())).await.unwrap();
        let sessions = scene.play(&name("stock:42"), open).await.unwrap();
        assert_eq!(kept(&server, &options.namespace).await, scene.kept, "{}", scene.title);
        for session in sessions {
            session.close().await.unwrap();
        }
    }
}

/// Everything below the namespace, in the playground's words.
async fn kept(server: &Client, namespace: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let root = format!("/{namespace}");
    for line in server.list_children(&root).await.unwrap() {
        let path = format!("{root}/{line}");
        kept.push(format!("/tidelock/{line}  container"));
        let mut nodes = server.list_children(&path).await.unwrap();
        nodes.sort_by_key(|node| node[node.len() - 10..].to_owned());
        kept.extend(nodes.iter().map(|node| {
            let mut parts: Vec<&str> = node.split('-').collect();
            let who = client(parts[1]);
            parts[1] = &who;
            shape(&format!("  {}", parts.join("-")))
        }));
    }
    kept
}
