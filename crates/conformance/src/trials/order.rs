//! Point 3. First come, first served, in the order in which the server received the claims; no claim is starved.

use std::time::Duration;

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Client, Stage, Want};

trials! {
    waiters_are_served_in_the_order_they_came: points [3], lessons [], needs [];
    a_thousand_waiters_are_served_in_order: points [3, 12], lessons [], needs [];
    a_reader_never_passes_a_waiting_writer: points [3], lessons [12], needs [];
    a_writer_gets_in_under_endless_readers: points [3], lessons [12], needs [];
    readers_get_in_under_endless_writers: points [3], lessons [12], needs [];
    small_requests_never_pass_a_large_one: points [3], lessons [15], needs [];
    a_waiter_for_many_permits_is_woken_when_they_are_free: points [3, 8], lessons [15], needs [];
    a_downgrade_lets_readers_in_and_keeps_writers_out: points [3, 8], lessons [13], needs [];
    a_short_hold_is_handed_over_at_once: points [3, 8], lessons [28], needs [];
    a_line_shows_who_holds_and_who_waits_in_order: points [3], lessons [], needs [];
    clocks_an_hour_apart_keep_their_order: points [3], lessons [11], needs [SkewClients, Child];
}

/// The order of the store's line, in which each waiter has a claim of its own.
async fn waiters_are_served_in_the_order_they_came(stage: &Stage) -> Outcome {
    let clients = stage.clients_with::<3>(stage.strict()).await?;
    for want in Want::ALONE {
        let name = format!("line for {want}");
        let first = clients[0].take(&name, want).await?;
        let mut waiting = Vec::new();
        for number in 0..stage.many(15, 200) {
            waiting.push(stage.waiter(&clients[number % 3], &name, want).await?);
        }
        first.release().await?;
        for waiter in waiting {
            stage.turn(waiter).await?.release().await?;
        }
    }
    Ok(())
}

async fn a_thousand_waiters_are_served_in_order(stage: &Stage) -> Outcome {
    let clients = stage.clients::<4>().await?;
    let first = clients[0].take("hot", Want::Lock).await?;
    let mut waiting = Vec::new();
    for _ in 0..10 {
        // Within a hundred the order is not known; between the hundreds, the history's check verifies it.
        waiting.extend(stage.waiters(&clients, "hot", Want::Lock, stage.many(100, 1_000)).await?);
    }
    first.release().await?;
    let all =
        waiting.into_iter().map(|waiter| tokio::spawn(async move { waiter.hold().await?.release().await }));
    for served in all.collect::<Vec<_>>() {
        stage.drive(served).await??;
    }
    Ok(())
}

async fn a_reader_never_passes_a_waiting_writer(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let reader = a.take("table", Want::Read).await?;
    let writer = stage.waiter(&b, "table", Want::Write).await?;
    ensure!(
        c.try_take("table", Want::Read).await?.is_none(),
        "a reader that tried was let in before the writer"
    );
    let late = stage.waiter(&c, "table", Want::Read).await?;
    stage.pass(stage.ttl()).await;
    ensure!(!late.is_done(), "a reader was let in before the writer");
    reader.release().await?;
    let writer = stage.turn(writer).await?;
    ensure!(!late.is_done(), "a reader was let in beside the writer");
    writer.release().await?;
    stage.turn(late).await?;
    Ok(())
}

/// Ends these streams, and waits until they have ended.
async fn end(streams: [tokio::task::JoinHandle<Outcome>; 2]) {
    for stream in streams {
        stream.abort();
        let _ = stream.await; // aborted, so the result does not matter
    }
}

/// Writes again and again, until it is aborted.
fn endless(client: &Client) -> tokio::task::JoinHandle<Outcome> {
    let client = client.clone();
    tokio::spawn(async move {
        loop {
            let writing = client.take("table", Want::Write).await?;
            tokio::task::yield_now().await;
            writing.release().await?;
        }
    })
}

async fn a_writer_gets_in_under_endless_readers(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let readers = [overlapping(&a), overlapping(&b)];
    for _ in 0..10 {
        let writer = stage.drive(c.take_within("table", Want::Write, stage.ttl())).await?;
        ensure!(writer.is_some(), "a writer waited for a ttl while readers came and went");
    }
    end(readers).await;
    Ok(())
}

/// A stream of readers. Each comes while the previous one still holds.
fn overlapping(client: &Client) -> tokio::task::JoinHandle<Outcome> {
    let client = client.clone();
    tokio::spawn(async move {
        loop {
            let reading = client.take("table", Want::Read).await?;
            let (other, held) = (client.clone(), async {
                tokio::task::yield_now().await;
                reading.release().await
            });
            let (next, released) = tokio::join!(other.take("table", Want::Read), held);
            released?;
            tokio::task::yield_now().await;
            next?.release().await?;
        }
    })
}

async fn readers_get_in_under_endless_writers(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let writers = [endless(&a), endless(&b)];
    for _ in 0..10 {
        let reader = stage.drive(c.take_within("table", Want::Read, stage.ttl())).await?;
        ensure!(reader.is_some(), "a reader waited for a ttl while writers came and went");
    }
    end(writers).await;
    Ok(())
}

async fn small_requests_never_pass_a_large_one(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let held = a.take("pool", Want::Permits(2, 4)).await?;
    let large = stage.waiter(&b, "pool", Want::Permits(4, 4)).await?;
    ensure!(
        c.try_take("pool", Want::Permits(1, 4)).await?.is_none(),
        "a small request that tried passed a large one"
    );
    let small = stage.waiter(&c, "pool", Want::Permits(1, 4)).await?;
    stage.pass(stage.ttl()).await;
    ensure!(!small.is_done(), "a small request passed a large one");
    held.release().await?;
    stage.turn(large).await?.release().await?;
    stage.turn(small).await?;
    Ok(())
}

async fn a_waiter_for_many_permits_is_woken_when_they_are_free(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(a.take("pool", Want::Permits(1, 5)).await?);
    }
    let waiting = stage.waiter(&b, "pool", Want::Permits(3, 5)).await?;
    for hold in held.drain(..2) {
        hold.release().await?;
    }
    stage.pass(stage.ttl()).await;
    ensure!(!waiting.is_done(), "two permits are free, but three were granted");
    held.pop().expect("three are left").release().await?;
    stage.turn(waiting).await?;
    Ok(())
}

async fn a_downgrade_lets_readers_in_and_keeps_writers_out(stage: &Stage) -> Outcome {
    let [a, b, c, d, e] = stage.clients().await?;
    let writer = a.take("table", Want::Write).await?;
    let readers = stage.waiters(&[b, c], "table", Want::Read, 4).await?;
    let other = stage.waiter(&d, "table", Want::Write).await?;
    let behind = stage.waiter(&e, "table", Want::Read).await?;
    let reading = writer.downgrade().await?;
    let mut inside = Vec::new();
    for reader in readers {
        inside.push(stage.turn(reader).await?);
    }
    stage.pass(stage.ttl()).await;
    ensure!(!other.is_done(), "a writer got in beside the one that became a reader");
    ensure!(!behind.is_done(), "a reader passed a waiting writer after a downgrade");
    drop(inside);
    reading.release().await?;
    stage.turn(other).await?.release().await?;
    stage.turn(behind).await?;
    Ok(())
}

async fn a_short_hold_is_handed_over_at_once(stage: &Stage) -> Outcome {
    const SHORT: Duration = Duration::from_millis(5);
    let [a, b] = stage.clients().await?;
    for _ in 0..5 {
        let hold = a.take("short", Want::Lock).await?;
        let waiting = stage.waiter(&b, "short", Want::Lock).await?;
        stage.pass(SHORT).await;
        hold.release().await?;
        stage.turn_within(SHORT * 8, waiting).await?.release().await?;
    }
    Ok(())
}

async fn a_line_shows_who_holds_and_who_waits_in_order(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let hold = a.take("pool", Want::Permits(2, 3)).await?;
    let _large = stage.waiter(&b, "pool", Want::Permits(3, 3)).await?;
    let _small = stage.waiter(&c, "pool", Want::Permits(1, 3)).await?;
    let line = stage.watcher().line("pool").await?;
    let shown: Vec<(&str, u32)> = line.claims.iter().map(|s| (s.label.as_str(), s.weight.get())).collect();
    ensure!(
        shown == [("client 0", 2), ("client 1", 3), ("client 2", 1)],
        "the line shows the claims {shown:?}"
    );
    let tokens: Vec<_> = line.claims.iter().map(|claim| claim.token).collect();
    ensure!(tokens == [Some(hold.token()), None, None], "the line shows the tokens {tokens:?}");
    ensure!(
        line.capacity.map(tidelock_core::Weight::get) == Some(3),
        "the line shows the capacity {:?}",
        line.capacity
    );
    ensure!(a.locks().semaphore("pool", 9)?.size().await? == 3, "the reported size is not the line's");
    Ok(())
}

async fn clocks_an_hour_apart_keep_their_order(stage: &Stage) -> Outcome {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    stage.act(Act::SkewClients(HOUR)).await?;
    let a = stage.client(0).await?;
    let mut children = Vec::new();
    for number in 0..4 {
        let child = stage.child(number).await?;
        let ahead = child.clock().since(stage.now());
        let meant = HOUR * u32::try_from(number + 1).unwrap_or(1);
        ensure!(ahead + HOUR / 60 > meant, "{} should be {meant:?} ahead, but is {ahead:?}", child.label());
        children.push(child);
    }
    let hold = a.take("hot", Want::Lock).await?;
    for (before, number) in [2, 0, 3, 1].into_iter().enumerate() {
        children[number].ask("hot")?;
        stage.until_waiting("hot", before + 1).await?;
        children[number].stands();
    }
    stage.pass(stage.ttl() * 3 / 2).await; // by now they are all alive through renewals
    hold.release().await?;
    for number in [2, 0, 3, 1] {
        children[number].granted(stage.ttl() / 3).await?;
        stage.pass(if number == 2 { stage.ttl() * 3 / 2 } else { Duration::ZERO }).await;
        ensure!(children[number].write().await?.is_some(), "child {number} has lost what it holds");
        children[number].release().await?;
    }
    Ok(())
}
