//! Point 10. After any number of names were used and left, nothing is left of them, here or there.

use std::time::Duration;

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Stage, Waiter, Want};

trials! {
    a_thousand_names_leave_nothing: points [10], lessons [22, 9, 18], needs [];
    a_thousand_cancelled_names_leave_nothing: points [10, 6], lessons [22, 17], needs [];
    a_closed_client_leaves_no_session_and_no_task: points [10], lessons [4, 24], needs [Leftovers];
    a_dropped_client_leaves_no_session_and_no_task: points [10, 6], lessons [4], needs [Leftovers];
}

/// No name is in use any more, as the store itself lists them.
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

/// Nothing is left, neither at the server nor in a client that has ended.
async fn until_no_leftovers(stage: &Stage) -> Outcome {
    let none = async || stage.server().leftovers().await.is_ok_and(|left| left.is_empty());
    let cleaned = stage.until(Duration::from_secs(1), "nothing is left", none).await;
    if cleaned.is_err() {
        let left = stage.server().leftovers().await?;
        ensure!(left.is_empty(), "this is left: {}", left.join("; "));
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
