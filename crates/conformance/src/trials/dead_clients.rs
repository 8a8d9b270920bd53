//! Point 5. A dead client delays the line by at most a ttl and a tenth, at a cost that does not grow with the line.

use tidelock_core::State;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Want};

trials! {
    a_dead_holder_delays_the_line_by_a_ttl_and_a_tenth: points [5], lessons [14], needs [Kill];
    a_dead_waiter_delays_the_line_by_a_ttl_and_a_tenth: points [5], lessons [10], needs [Kill];
    a_dead_clients_permits_come_back_and_no_more: points [5, 1], lessons [14], needs [Kill];
    a_hold_that_was_evicted_delays_nobody_by_its_age: points [5], lessons [34], needs [Kill];
    a_dead_reader_lets_the_writer_in: points [5], lessons [], needs [Kill];
    who_lives_longer_outlives_the_others_on_a_name: points [5, 1, 3], lessons [], needs [Kill];
    a_dead_crowd_costs_what_one_dead_costs: points [5, 12], lessons [10], needs [Kill, Count];
    whose_session_ended_while_it_waited_stands_in_line_anew: points [5, 4], lessons [], needs [EndSession];
}

async fn a_dead_holder_delays_the_line_by_a_ttl_and_a_tenth(stage: &Stage) -> Outcome {
    let [dead, alive] = stage.clients().await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for want in Want::ALONE {
        let name = format!("orphaned {want}");
        holds.push(dead.take(&name, want).await?);
        waiting.push(stage.waiter(&alive, &name, want).await?);
    }
    stage.act(Act::Kill(client(0))).await?;
    let died = stage.now();
    let bound = stage.ttl() * 11 / 10;
    for waiter in waiting {
        stage.turn_since(died, bound, waiter).await?;
    }
    ensure!(
        holds.iter().all(|hold| hold.state() == State::Lost),
        "a dead client still believes that it holds"
    );
    Ok(())
}

async fn a_dead_waiter_delays_the_line_by_a_ttl_and_a_tenth(stage: &Stage) -> Outcome {
    let [holder, dead, alive] = stage.clients().await?;
    let hold = holder.take("line", Want::Lock).await?;
    let _buried = stage.waiters(std::slice::from_ref(&dead), "line", Want::Lock, 5).await?;
    let waiting = stage.waiter(&alive, "line", Want::Lock).await?;
    stage.act(Act::Kill(client(1))).await?;
    hold.release().await?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    Ok(())
}

async fn a_dead_clients_permits_come_back_and_no_more(stage: &Stage) -> Outcome {
    let [dead, alive, others] = stage.clients().await?;
    let _lost = dead.take("pool", Want::Permits(2, 3)).await?;
    let kept = alive.take("pool", Want::Permits(1, 3)).await?;
    let first = stage.waiter(&others, "pool", Want::Permits(1, 3)).await?;
    let second = stage.waiter(&others, "pool", Want::Permits(1, 3)).await?;
    let third = stage.waiter(&others, "pool", Want::Permits(1, 3)).await?;
    stage.act(Act::Kill(client(0))).await?;
    let one = stage.turn_within(stage.ttl() * 11 / 10, first).await?;
    let two = stage.turn(second).await?;
    stage.pass(stage.ttl() * 2).await;
    ensure!(
        !third.is_done(),
        "three permits are held, two of them by dead clients, and a fourth was granted"
    );
    kept.release().await?;
    let three = stage.turn(third).await?;
    drop((one, two, three));
    Ok(())
}

/// The client that comes after the evicted one dies as well, and costs what any dead client costs.
async fn a_hold_that_was_evicted_delays_nobody_by_its_age(stage: &Stage) -> Outcome {
    let [old, operator, alive] = stage.clients().await?;
    let next = stage.client(3).await?;
    let hold = old.take("stock", Want::Lock).await?;
    stage.pass(stage.ttl() * 3).await;
    let buried = stage.waiter(&next, "stock", Want::Lock).await?;
    let waiting = stage.waiter(&alive, "stock", Want::Lock).await?;
    stage.expect_overlap(); // the evicted client may learn of it late
    stage.evict(&operator, "stock").await?;
    let _lost = stage.turn(buried).await?;
    stage.act(Act::Kill(client(3))).await?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?.release().await?;
    drop(hold);
    Ok(())
}

async fn a_dead_reader_lets_the_writer_in(stage: &Stage) -> Outcome {
    let [dead, alive, writer] = stage.clients().await?;
    let _lost = dead.take("table", Want::Read).await?;
    let reading = alive.take("table", Want::Read).await?;
    let waiting = stage.waiter(&writer, "table", Want::Write).await?;
    stage.act(Act::Kill(client(0))).await?;
    stage.pass(stage.ttl() * 11 / 10).await;
    ensure!(!waiting.is_done(), "a writer was let in beside a living reader");
    ensure!(reading.state() == State::Held, "the death of another reader cost a reader its hold");
    reading.release().await?;
    stage.turn(waiting).await?;
    Ok(())
}

/// The cost for the other clients when a client dies that has `dead` claims in line.
async fn cost_of_dying(stage: &Stage, first: usize, dead: usize) -> Outcome<u64> {
    let name = format!("line of {dead}");
    let mut clients = Vec::new();
    for number in first..first + 3 {
        clients.push(stage.client(number).await?);
    }
    let hold = clients[0].take(&name, Want::Lock).await?;
    let buried = stage.waiters(&clients[1..2], &name, Want::Lock, dead).await?;
    let waiting = stage.waiter(&clients[2], &name, Want::Lock).await?;
    stage.act(Act::Kill(client(first + 1))).await?;
    let before = stage.counts().await?;
    hold.release().await?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?.release().await?;
    let cost = stage.counts().await? - before;
    drop(buried);
    Ok(cost.commands)
}

/// The store keeps a line for as long as its longest-living client lives. It does not matter how short the other
/// clients live, or which client wrote there last.
async fn who_lives_longer_outlives_the_others_on_a_name(stage: &Stage) -> Outcome {
    let long = || stage.options().ttl(stage.ttl() * 10);
    let [fickle, dead] = stage.clients().await?;
    let holder = stage.client_with(2, long()).await?;
    let waiter = stage.client_with(3, long()).await?;
    let (mut lines, mut buried) = (Vec::new(), Vec::new());
    for want in Want::ALONE {
        let name = format!("shared {want}");
        let short_hold = fickle.take(&name, want).await?;
        let waiting = stage.waiter(&holder, &name, want).await?;
        short_hold.release().await?;
        let hold = stage.turn(waiting).await?;
        let waiting = stage.waiter(&waiter, &name, want).await?;
        let gives_up = stage.waiter(&fickle, &name, want).await?;
        buried.push(stage.waiter(&dead, &name, want).await?);
        drop(gives_up);
        stage.until_waiting(&name, 2).await?;
        lines.push((name, want, hold, waiting));
    }
    stage.act(Act::Kill(client(1))).await?;
    stage.pass(stage.ttl() * 5 / 2).await; // longer than the short lives, and before the next long renewal
    for (name, want, hold, waiting) in lines {
        ensure!(hold.state() == State::Held && !waiting.is_done(), "{name:?} was granted to another client");
        ensure!(fickle.try_take(&name, want).await?.is_none(), "{name:?} was forgotten under its holder");
        let line = stage.watcher().line(&name).await?;
        let next = line.waiters().next().map(|claim| claim.label.clone());
        ensure!(
            next.as_deref() == Some(waiter.label()),
            "{next:?} comes next: {waiter:?} has lost its place"
        );
        hold.release().await?;
        stage.turn(waiting).await?.release().await?;
    }
    Ok(())
}

async fn a_dead_crowd_costs_what_one_dead_costs(stage: &Stage) -> Outcome {
    let one = cost_of_dying(stage, 0, 1).await?;
    let many = cost_of_dying(stage, 10, stage.many(200, 2_000)).await?;
    ensure!(
        many <= one + 10,
        "removing one dead claim took {one} commands, and removing a crowd took {many}"
    );
    Ok(())
}

async fn whose_session_ended_while_it_waited_stands_in_line_anew(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("line", Want::Lock).await?;
    let waiting = stage.waiter(&b, "line", Want::Lock).await?;
    stage.act(Act::EndSession(client(1))).await?;
    stage.until_waiting("line", 1).await?;
    ensure!(!waiting.is_done(), "a wait ended because its session did");
    hold.release().await?;
    stage.turn(waiting).await?.release().await?;
    Ok(())
}
