//! Point 9. A stall delays only itself: no other client, no other name, and no guard.

use std::time::Duration;

use tidelock_core::State;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Waiter, Want};

trials! {
    a_stalled_client_delays_no_other: points [9], lessons [3], needs [HoldBack];
    a_stalled_name_delays_no_other: points [9], lessons [3, 9], needs [StallName];
    a_stalled_name_costs_nobody_a_guard: points [9, 4], lessons [3], needs [StallName];
    a_crowded_name_delays_no_other: points [9], lessons [9], needs [];
    five_hundred_waiters_on_five_hundred_names_all_get_on: points [9, 8], lessons [19, 9], needs [Crowd];
}

async fn a_stalled_client_delays_no_other(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let _kept = a.take("kept", Want::Lock).await?;
    stage.act(Act::HoldRequests(client(0))).await?;
    for round in 0..20 {
        let asked = stage.now();
        let hold = stage.drive(b.take(&format!("other {}", round % 4), Want::Lock)).await?;
        stage.drive(hold.release()).await?;
        let took = stage.now().since(asked);
        ensure!(stage.is_in_time(asked, stage.ttl() / 5), "a stalled client delayed another by {took:?}");
    }
    stage.act(Act::Heal).await
}

async fn a_stalled_name_delays_no_other(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = b.take("stuck", Want::Lock).await?;
    a.take("warm", Want::Lock).await?.release().await?;
    stage.act(Act::StallName("stuck".into())).await?;
    let stuck = Waiter::spawn(&a, "stuck", Want::Lock);
    for round in 0..20 {
        stage.pass(Duration::from_millis(1)).await;
        let asked = stage.now();
        let free =
            stage.drive(a.take_within(&format!("other {}", round % 4), Want::Lock, stage.ttl() / 10)).await?;
        let took = stage.now().since(asked);
        ensure!(free.is_some(), "a stalled name kept another name from being locked for {took:?}");
        ensure!(stage.is_in_time(asked, stage.ttl() / 10), "a stalled name delayed another name by {took:?}");
    }
    drop((stuck, hold));
    stage.act(Act::Heal).await
}

async fn a_stalled_name_costs_nobody_a_guard(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let busy = b.take("stuck", Want::Lock).await?;
    let waiting = stage.waiter(&a, "stuck", Want::Lock).await?;
    let kept = a.take("kept", Want::Lock).await?;
    stage.act(Act::StallName("stuck".into())).await?;
    for _ in 0..12 {
        stage.pass(stage.ttl() / 4).await;
        ensure!(kept.state() == State::Held, "a stalled name put another name's guard in jeopardy");
    }
    stage.act(Act::Heal).await?;
    drop(busy);
    stage.turn_within(stage.ttl(), waiting).await?;
    Ok(())
}

async fn a_crowded_name_delays_no_other(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("crowded", Want::Lock).await?;
    let crowd = stage.waiters(&[a.clone(), b.clone()], "crowded", Want::Lock, stage.many(200, 2_000)).await?;
    for round in 0..20 {
        let free = a.try_take(&format!("other {round}"), Want::Lock).await?;
        ensure!(free.is_some(), "a free name was refused because another one is crowded");
    }
    let other = a.take("other", Want::Lock).await?;
    let waiting = stage.waiter(&b, "other", Want::Lock).await?;
    other.release().await?;
    stage.turn_within(stage.ttl() / 10, waiting).await?;
    drop((crowd, hold));
    Ok(())
}

async fn five_hundred_waiters_on_five_hundred_names_all_get_on(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..500 {
        let name = format!("name {number}");
        holds.push(a.take(&name, Want::Lock).await?);
        waiting.push(Waiter::spawn(&b, &name, Want::Lock));
    }
    stage.until_waiting("name 499", 1).await?;
    drop(holds);
    let all = async || waiting.iter().all(Waiter::is_done);
    stage.until(stage.ttl() / 3, "all of five hundred waiters get their turn", all).await?;
    for waiter in waiting {
        waiter.hold().await?.release().await?;
    }
    Ok(())
}
