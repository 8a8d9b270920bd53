//! Point 10. After any number of names were used and left, nothing is left of them, neither in a client nor at the
//! server.

use std::sync::Arc;
use std::time::Duration;

use tidelock_core::Locks;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Stage, Waiter, Want, Way};

trials! {
    a_thousand_names_leave_nothing: points [10], lessons [22, 9, 18], needs [Crowd];
    a_thousand_cancelled_names_leave_nothing: points [10, 6], lessons [22, 17], needs [Crowd];
    a_closed_client_leaves_no_session_and_no_task: points [10], lessons [4, 24], needs [Leftovers];
    a_dropped_client_leaves_no_session_and_no_task: points [10, 6], lessons [4], needs [Leftovers];
    refused_tries_leave_nothing_in_a_clients_memory: points [10], lessons [22, 40], needs [Child, Crowd];
    closing_keeps_its_deadline_while_a_session_is_being_opened: points [10, 6], lessons [24, 40], needs [HoldBack];
    closing_keeps_its_deadline_while_the_network_stalls: points [10, 6], lessons [24], needs [Stall];
}

/// Waits until no name is in use any more, as the store itself lists them.
pub(super) async fn until_no_names(stage: &Stage) -> Outcome {
    let none = async || stage.watcher().locks().names("", None).await.is_ok_and(|names| names.is_empty());
    stage.until(Duration::from_secs(1), "no name is in use any more", none).await
}

async fn a_thousand_names_leave_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    for number in 0..stage.many(1_000, 20_000) {
        let (client, name) = (if number % 2 == 0 { &a } else { &b }, format!("name {number}"));
        let want = [Want::Lock, Want::Read, Want::Write, Want::Permits(2, 3)][number % 4];
        let hold = client.take(&name, want).await?;
        match number % 3 {
            0 => hold.release().await?,
            _ => drop(hold),
        }
    }
    until_no_names(stage).await
}

async fn a_thousand_cancelled_names_leave_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let count = stage.many(500, 5_000);
    let mut holds = Vec::new();
    let mut waiting = Vec::new();
    for number in 0..count {
        let name = format!("name {number}");
        holds.push(a.take(&name, Want::Lock).await?);
        waiting.push(Waiter::spawn(&b, &name, Want::Lock));
        ensure!(b.try_take(&name, Want::Lock).await?.is_none(), "{name} was granted twice");
    }
    stage.until_waiting(&format!("name {}", count - 1), 1).await?;
    drop(waiting);
    drop(holds);
    until_no_names(stage).await
}

/// Waits until nothing is left, neither at the server nor in a client that has ended.
async fn until_no_leftovers(stage: &Stage) -> Outcome {
    let none = async || stage.server().leftovers().await.is_ok_and(|left| left.is_empty());
    let cleaned = stage.until(Duration::from_secs(1), "nothing is left", none).await;
    if cleaned.is_err() {
        let left = stage.server().leftovers().await?;
        ensure!(left.is_empty(), "left over: {}", left.join("; "));
    }
    Ok(())
}

async fn a_closed_client_leaves_no_session_and_no_task(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..50 {
        let name = format!("name {number}");
        holds.push(a.take(&name, Want::Lock).await?);
        waiting.push(stage.waiter(&b, &name, Want::Lock).await?);
    }
    stage.drive(a.locks().close()).await?;
    stage.drive(b.locks().close()).await?;
    drop((holds, waiting, a, b));
    until_no_leftovers(stage).await
}

async fn a_dropped_client_leaves_no_session_and_no_task(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("name", Want::Lock).await?;
    let waiting = stage.waiter(&b, "name", Want::Lock).await?;
    drop((waiting, hold, a, b));
    until_no_leftovers(stage).await
}

/// Runs a client in a process of its own, so that nothing else uses its memory.
async fn refused_tries_leave_nothing_in_a_clients_memory(stage: &Stage) -> Outcome {
    const BYTES: u64 = 16;
    let [a] = stage.clients().await?;
    let _busy = a.take("busy", Want::Lock).await?;
    let mut child = stage.child(0).await?;
    let times = stage.many(30_000, 600_000) as u64;
    // A client keeps and reuses the buffers that it allocates at first.
    child.be_refused(times / 2, "busy").await?;
    let before = child.resident()?;
    child.be_refused(times, "busy").await?;
    let grown = child.resident()?.saturating_sub(before);
    ensure!(
        grown < times * BYTES,
        "{times} refused tries left {grown} bytes in the client's memory, {:.1} bytes each",
        grown as f64 / times as f64
    );
    Ok(())
}

/// A client without a session yet.
fn without_session(stage: &Stage, client: &Client) -> Outcome<Arc<dyn Locks>> {
    Ok(client.locks().with_ttl(stage.ttl() * 2)?)
}

async fn closing_keeps_its_deadline_while_a_session_is_being_opened(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    closes_in_time(stage, &a, Act::HoldRequests(client(0))).await
}

async fn closing_keeps_its_deadline_while_the_network_stalls(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    closes_in_time(stage, &a, Act::Stall(client(0), Way::Back)).await
}

/// A session is being opened while nothing gets through. Closing must end within its deadline, with or without an
/// error.
async fn closes_in_time(stage: &Stage, client: &Client, act: Act) -> Outcome {
    const DEADLINE: Duration = Duration::from_millis(100);
    let locks = without_session(stage, client)?;
    stage.act(act).await?;
    let mutex = locks.mutex("any")?;
    let opening = tokio::spawn(async move { mutex.lock().await.map(drop) });
    stage.pass(DEADLINE / 2).await;
    let asked = stage.now();
    let _ = stage.drive(locks.close_within(DEADLINE)).await; // the error may say what could not be confirmed
    let took = stage.now().since(asked);
    ensure!(stage.is_in_time(asked, DEADLINE + stage.ttl() / 4), "closing within {DEADLINE:?} took {took:?}");
    stage.act(Act::Heal).await?;
    let opened = async || opening.is_finished();
    stage.until(stage.ttl() * 3, "the call that waited for the session ends", opened).await
}
