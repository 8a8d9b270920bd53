//! What waiting costs, as the server counts it. A program of its own: the server counts for everybody.
#![allow(clippy::unwrap_used)] // all of this is a test, its helpers too

#[allow(dead_code)] // the other tests use the rest
#[path = "all/server.rs"]
mod server;

use std::time::Duration;

use server::{client_with, run, statements, until};
use tidelock_mysql::Options;

/// The statements that a client sends in a while, without those of the count itself.
async fn in_a_while(seconds: u64) -> u64 {
    let before = statements().await;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    statements().await - before - 1
}

#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn five_hundred_waiters_hold_four_connections_and_ask_twenty_times_a_second() {
    let options = || Options::new().namespace("waiting 1").ttl(Duration::from_secs(600));
    let (a, b) = (client_with(options()).await, client_with(options()).await);
    let idle = in_a_while(2).await;
    assert!(idle <= 4, "two idle clients sent {idle} statements in 2 s");
    let (mut held, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let name = format!("name {number}");
        held.push(a.mutex(&name).unwrap().lock().await.unwrap());
        let mutex = b.mutex(&name).unwrap();
        waiting.push(tokio::spawn(async move { mutex.lock().await.unwrap().release().await.unwrap() }));
    }
    until("all wait", async || b.inspect("name 499").await.unwrap().waiters().count() == 1).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = in_a_while(3).await;
    assert!(asked <= 3 * 20 + 10, "500 waiters sent {asked} statements in 3 s");
    let connections =
        run("SELECT COUNT(*) FROM information_schema.PROCESSLIST").await[0][0].parse::<u32>().unwrap();
    println!("{asked} statements in 3 s, {connections} connections of all tests");
    drop(held);
    for task in waiting {
        task.await.unwrap();
    }
    a.close().await.unwrap();
    b.close().await.unwrap();
}
