//! Point 8. Notifications are only hints: if every one is lost, waiters still get their turn.

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Waiter, Want, Whom};

trials! {
    waiters_get_on_with_every_signal_lost: points [8], lessons [8], needs [DropSignals];
    readers_and_permits_get_on_with_every_signal_lost: points [8], lessons [8], needs [DropSignals];
    a_downgrade_is_seen_with_every_signal_lost: points [8], lessons [8, 13], needs [DropSignals];
    a_growing_size_is_seen_with_every_signal_lost: points [8], lessons [8], needs [DropSignals];
    a_grant_that_overtakes_the_answer_to_its_join_counts: points [8, 3], lessons [28], needs [Delay];
    a_long_wait_with_signals_lost_ends_after_a_dead_holder: points [8, 5], lessons [8], needs [DropSignals, Kill];
}

async fn waiters_get_on_with_every_signal_lost(stage: &Stage) -> Outcome {
    // Each waiter has a claim of its own, so that the one before it is known.
    let clients = stage.clients_with::<3>(stage.strict()).await?;
    for want in Want::ALONE {
        let name = format!("silent {want}");
        let first = clients[0].take(&name, want).await?;
        let mut waiting = Vec::new();
        for number in 0..stage.many(6, 30) {
            waiting.push(stage.waiter(&clients[number % 3], &name, want).await?);
        }
        stage.act(Act::DropSignals(Whom::Everyone)).await?;
        first.release().await?;
        for waiter in waiting {
            // `turn` allows each waiter a third of the ttl, counted from when the one before it left.
            stage.turn(waiter).await?.release().await?;
        }
        stage.act(Act::Heal).await?;
    }
    Ok(())
}

async fn readers_and_permits_get_on_with_every_signal_lost(stage: &Stage) -> Outcome {
    // Each waiter has a claim of its own: a reader who only stands in its client's own line has no place yet that the
    // writer, a task of another client, could not take before it.
    let [a, b, c] = stage.clients_with(stage.strict()).await?;
    let writing = a.take("table", Want::Write).await?;
    let large = a.take("pool", Want::Permits(5, 5)).await?;
    let readers = stage.waiters(&[a, b.clone(), c.clone()], "table", Want::Read, 6).await?;
    let writer = stage.waiter(&b, "table", Want::Write).await?;
    let small = stage.waiters(&[b, c], "pool", Want::Permits(1, 5), 5).await?;
    stage.act(Act::DropSignals(Whom::Everyone)).await?;
    let (given_back, third) = (stage.now(), stage.ttl() / 3);
    writing.release().await?;
    large.release().await?;
    let mut inside = Vec::new();
    for waiter in readers.into_iter().chain(small) {
        inside.push(stage.turn_since(given_back, third, waiter).await?);
    }
    drop(inside);
    stage.turn(writer).await?;
    stage.act(Act::Heal).await
}

async fn a_downgrade_is_seen_with_every_signal_lost(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let writing = a.take("table", Want::Write).await?;
    let reader = stage.waiter(&b, "table", Want::Read).await?;
    stage.act(Act::DropSignals(Whom::Everyone)).await?;
    let reading = writing.downgrade().await?;
    stage.turn(reader).await?;
    drop(reading);
    stage.act(Act::Heal).await
}

async fn a_growing_size_is_seen_with_every_signal_lost(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let held = a.take("pool", Want::Permits(2, 2)).await?;
    let waiting = stage.waiters(&[b.clone(), c], "pool", Want::Permits(1, 2), 4).await?;
    stage.act(Act::DropSignals(Whom::Everyone)).await?;
    a.resize("pool", 6).await?;
    for waiter in waiting {
        stage.turn(waiter).await?.release().await?;
    }
    ensure!(
        stage.drive(b.try_take("pool", Want::Permits(4, 6))).await?.is_some(),
        "a name that was given back is not free"
    );
    held.release().await?;
    stage.act(Act::Heal).await
}

async fn a_grant_that_overtakes_the_answer_to_its_join_counts(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    b.take("warm", Want::Lock).await?.release().await?;
    let slow = stage.ttl() / 10;
    for want in Want::ALONE {
        let name = format!("overtaken {want}");
        let hold = a.take(&name, want).await?;
        stage.act(Act::Delay(client(1), slow)).await?;
        // When the grant is signalled, the request has arrived but its reply has not.
        let waiting = Waiter::spawn(&b, &name, want);
        stage.until_waiting(&name, 1).await?;
        hold.release().await?;
        let next = stage.turn_within(slow * 3 / 2, waiting).await?;
        stage.act(Act::Heal).await?;
        next.release().await?;
    }
    Ok(())
}

async fn a_long_wait_with_signals_lost_ends_after_a_dead_holder(stage: &Stage) -> Outcome {
    let [dead, alive] = stage.clients().await?;
    let _lost = dead.take("orphaned", Want::Lock).await?;
    let waiting = stage.waiter(&alive, "orphaned", Want::Lock).await?;
    stage.act(Act::DropSignals(Whom::Everyone)).await?;
    stage.pass(stage.ttl() * 2).await;
    stage.act(Act::Kill(client(0))).await?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    Ok(())
}
