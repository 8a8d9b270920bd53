//! Point 13 again. A replica takes over: grants that it knows are kept, and grants that it missed are fenced.

use std::time::Duration;

use tidelock_core::State;

use crate::failure::{Failure, Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Ability, Act, Can, Hold, Mishap, Resource, Stage, Waiter, Want};

trials! {
    a_failover_that_missed_the_grant_is_fenced: points [13, 1, 2], lessons [23], needs [FailOver, HoldBack];
    a_failover_loses_nothing_that_was_replicated: points [13, 1, 5, 8], lessons [8, 23, 39], needs [FailOver];
}

/// A ttl longer than a failover. A third of it is mostly longer too, so a client whose renewal comes then learns soon.
const PATIENT: Duration = Duration::from_secs(15);
/// How long it may take to get a lock that is available: connections are opened anew, and maps are read again.
const SOON: Duration = Duration::from_secs(5);

async fn a_failover_that_missed_the_grant_is_fenced(stage: &Stage) -> Outcome {
    // It believes that it holds for as long as a failover takes, and hears nothing of it.
    let a = stage.client_with(0, stage.options().ttl(PATIENT)).await?;
    let b = stage.client_with(1, stage.options().command_deadline(SOON)).await?;
    let resource = Resource::new(stage.recorder(), "stock");
    stage.act(Act::FallBehind).await?;
    let hold = stage.drive(a.take("stock", Want::Lock)).await?;
    ensure!(resource.write(&hold), "the holder's first write was refused");
    let may_overlap = stage.may_overlap(Mishap::FailOver);
    if may_overlap {
        stage.expect_overlap();
    }
    stage.act(Act::HoldRequests(client(0))).await?;
    stage.act(Act::FailOver).await?;
    let next = stage.drive(b.take_within("stock", Want::Lock, SOON)).await?;
    let Some(next) = next else {
        ensure!(!may_overlap, "the declared overlap could not be forced");
        return Ok(());
    };
    ensure!(may_overlap, "two clients believe that they hold, which is not declared");
    ensure!(
        hold.state() != State::Lost,
        "the first holder no longer believes that it holds: the trial shows nothing"
    );
    ensure!(next.token() > hold.token(), "token {} was granted after token {}", next.token(), hold.token());
    ensure!(resource.write(&next), "the new holder's write was refused");
    ensure!(!resource.write(&hold), "the old holder's write was accepted");
    stage.act(Act::Heal).await?;
    let told = async || hold.state() == State::Lost;
    stage.until(PATIENT / 3 + SOON, "the old holder learns that its hold is lost", told).await?;
    ensure!(next.state() == State::Held, "the new holder lost its hold");
    next.release().await?;
    Ok(())
}

async fn a_failover_loses_nothing_that_was_replicated(stage: &Stage) -> Outcome {
    let a = stage.client_with(0, stage.options().ttl(PATIENT)).await?;
    let b = stage.client_with(1, stage.options().ttl(PATIENT)).await?;
    let names = names_of_one_server(stage, 101).await?;
    let (hot, names) = names.split_first().ok_or_else(|| Failure::new("there are names"))?;
    let hot_hold = stage.drive(a.take(hot, Want::Lock)).await?;
    let crowd = who_only_wait(stage, hot).await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for name in names {
        holds.push(stage.drive(a.take(name, Want::Lock)).await?);
        waiting.push(stage.waiter(&b, name, Want::Lock).await?);
    }
    stage.pass(stage.ttl()).await; // so that the last writes are replicated
    stage.act(Act::FailOver).await?;
    for hold in holds.iter().chain([&hot_hold]) {
        ensure!(hold.state() != State::Lost, "a hold was lost, though it was replicated");
    }
    let mut waiters = waiting.iter().chain(&crowd);
    ensure!(waiters.all(|waiter| !waiter.is_done()), "a waiter was granted a name that is held");
    let mut last = hot_hold;
    for waiter in crowd {
        last = passed_on(stage, last, SOON, waiter).await?;
    }
    for (hold, waiter) in holds.into_iter().zip(waiting) {
        passed_on(stage, hold, SOON, waiter).await?;
    }
    Ok(())
}

/// This many names, all on the server that will die, which is the one with the most names.
async fn names_of_one_server(stage: &Stage, count: usize) -> Outcome<Vec<String>> {
    let names: Vec<String> = (0..count * 4).map(|number| format!("name {number}")).collect();
    let homes = match stage.subject().can(Ability::Spread) {
        Can::Yes => stage.server().homes(&names).await?,
        Can::No(_) => vec![String::new(); names.len()],
    };
    let of_the_first = names.into_iter().zip(&homes).filter(|(_, home)| **home == homes[0]);
    let names: Vec<String> = of_the_first.map(|(name, _)| name).take(count).collect();
    ensure!(
        names.len() == count,
        "one server has only {} of the {count} names that the trial needs",
        names.len()
    );
    Ok(names)
}

/// Clients that only have one place in line, and rarely look there. Nothing else makes them find out that their server
/// has changed.
async fn who_only_wait(stage: &Stage, name: &str) -> Outcome<Vec<Waiter>> {
    let mut waiters = Vec::new();
    for number in 2..6 {
        let one = stage.client_with(number, stage.options().ttl(PATIENT * 4)).await?;
        waiters.push(stage.waiter(&one, name, Want::Lock).await?);
    }
    Ok(waiters)
}

/// The next waiter is granted, under a later token.
async fn passed_on(stage: &Stage, hold: Hold, within: Duration, waiter: Waiter) -> Outcome<Hold> {
    let before = hold.token();
    match hold.release().await {
        // Its server is another one now: the keeper gives back a hold that the old one had.
        Err(error) if !error.can_retry() => return Err(error.into()),
        _ => {}
    }
    let next = stage.turn_within(within, waiter).await?;
    ensure!(next.token() > before, "token {} was granted after token {before}", next.token());
    Ok(next)
}
