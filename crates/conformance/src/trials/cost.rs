//! Point 12. The cost of each operation is known, and a hand-off costs the same however many claims wait.

use std::time::Duration;

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Client, Counts, Stage, Want};

trials! {
    taking_and_giving_back_cost_what_is_declared: points [12], lessons [], needs [Count];
    a_hand_off_costs_the_same_however_many_wait: points [12], lessons [18], needs [Count];
    renewals_are_gathered: points [12], lessons [], needs [Count];
    who_waits_costs_nothing_between_looks: points [12, 8], lessons [19], needs [Count];
    contention_that_is_refused_costs_one_command: points [12], lessons [], needs [Count];
}

async fn warm(stage: &Stage, clients: &[Client]) -> Outcome<Counts> {
    for client in clients {
        client.take("warm", Want::Lock).await?.release().await?;
    }
    stage.counts().await
}

async fn taking_and_giving_back_cost_what_is_declared(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let cost = stage.subject().cost();
    for want in [Want::Lock, Want::Read, Want::Write, Want::Permits(2, 3)] {
        let before = warm(stage, std::slice::from_ref(&a)).await?;
        for round in 0..10 {
            a.take(&format!("own {round}"), want).await?.release().await?;
        }
        let spent = (stage.counts().await? - before).commands;
        let declared = 10 * (cost.acquire + cost.release);
        ensure!(
            spent <= declared,
            "taking and releasing {want} ten times took {spent} commands; {declared} are declared"
        );
    }
    Ok(())
}

/// The cost of ten hand-offs while this many more claims stand in line.
async fn hand_offs(stage: &Stage, clients: &[Client; 4], parked: usize) -> Outcome<(Counts, u64)> {
    let name = format!("hot, {parked} parked");
    let mut hold = clients[0].take(&name, Want::Lock).await?;
    let mut next = Vec::new();
    for number in 0..10 {
        next.push(stage.waiter(&clients[number % 4], &name, Want::Lock).await?);
    }
    let behind = stage.waiters(clients, &name, Want::Lock, parked).await?;
    let (before, began) = (stage.counts().await?, stage.now());
    for waiter in next {
        hold.release().await?;
        let turn = async || waiter.is_done();
        // No time passes: a hand-off needs none, and nothing else is sent meanwhile.
        stage.until(Duration::ZERO, "the next waiter gets its turn", turn).await?;
        hold = waiter.hold().await?;
    }
    let spent = stage.counts().await? - before;
    // In real time, renewals continue meanwhile, and each waiting client looks now and then, which costs what a hand-off
    // does.
    let rounds = stage.now().since(began).as_nanos() / (stage.ttl() / 3).as_nanos() + 1;
    let cost = stage.subject().cost();
    let renewals = (cost.renewal + cost.hand_off.max(1))
        * clients.len() as u64
        * u64::try_from(rounds).unwrap_or(u64::MAX);
    drop(behind);
    hold.release().await?;
    Ok((spent, renewals))
}

/// The hand-off is the one in the store's line, where each waiter has a claim of its own.
async fn a_hand_off_costs_the_same_however_many_wait(stage: &Stage) -> Outcome {
    let clients = stage.clients_with::<4>(stage.strict()).await?;
    let cost = stage.subject().cost();
    let (few, renewals) = hand_offs(stage, &clients, 0).await?;
    let (many, more_renewals) = hand_offs(stage, &clients, stage.many(1_000, 10_000)).await?;
    let declared = 10 * (cost.release + cost.hand_off);
    ensure!(
        few.commands <= declared + renewals,
        "ten hand-offs took {} commands; {declared} are declared",
        few.commands
    );
    ensure!(
        many.commands <= declared + more_renewals && many.signals <= few.signals + 2,
        "ten hand-offs cost {few:?} with no claim behind, but {many:?} with a crowd behind"
    );
    ensure!(many.signals <= 20, "ten hand-offs woke clients {} times: this is a herd", many.signals);
    Ok(())
}

async fn renewals_are_gathered(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let mut holds = vec![a.take("first", Want::Lock).await?];
    let before = stage.counts().await?;
    stage.pass(stage.ttl()).await;
    let alone = (stage.counts().await? - before).commands;
    let names = stage.many(500, 10_000);
    for number in 0..names {
        holds.push(a.take(&format!("name {number}"), Want::Lock).await?);
    }
    let before = stage.counts().await?;
    stage.pass(stage.ttl()).await;
    let together = (stage.counts().await? - before).commands;
    // A name costs something no more often than the first name does.
    let declared = (alone + 2) * (1 + stage.subject().cost().renewal * names as u64);
    ensure!(
        together <= declared,
        "one ttl took {alone} commands for one name and {together} for a crowd; {declared} are declared"
    );
    Ok(())
}

async fn who_waits_costs_nothing_between_looks(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("busy", Want::Lock).await?;
    let waiting = stage.waiters(std::slice::from_ref(&b), "busy", Want::Lock, stage.many(100, 1_000)).await?;
    let before = stage.counts().await?;
    stage.pass(stage.ttl()).await;
    let spent = (stage.counts().await? - before).commands;
    // Three renewals for each client, and now and then a look of one client, at least a quarter of a ttl apart.
    ensure!(spent <= 2 * 4 + 5, "a crowd that only waits sent {spent} commands within one ttl");
    drop((waiting, hold));
    Ok(())
}

async fn contention_that_is_refused_costs_one_command(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("busy", Want::Lock).await?;
    let before = warm(stage, std::slice::from_ref(&b)).await?;
    for _ in 0..10 {
        ensure!(b.try_take("busy", Want::Lock).await?.is_none(), "it was granted twice");
    }
    let spent = (stage.counts().await? - before).commands;
    let cost = stage.subject().cost();
    ensure!(spent <= 10 * (cost.acquire + cost.release), "being refused ten times took {spent} commands");
    drop(hold);
    Ok(())
}
