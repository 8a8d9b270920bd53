//! Point 13 again. A replica takes over: what it was told is kept, what it missed is fenced.

use std::time::Duration;

use tidelock::State;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Belief, Mishap, Resource, Stage, Want};

trials! {
    a_failover_that_missed_the_grant_is_fenced: points [13, 1, 2], lessons [23], needs [FailOver, HoldBack];
    a_failover_loses_nothing_that_was_replicated: points [13, 1, 5], lessons [], needs [FailOver];
    who_only_waits_is_granted_after_a_failover: points [13, 8], lessons [8, 23], needs [FailOver];
}

/// A ttl that outlasts a failover, and a third of which does so mostly: whoever is renewed then learns soon.
const PATIENT: Duration = Duration::from_secs(15);
/// How long a lock that can be had may take to be had: connections are made anew, and maps read again.
const SOON: Duration = Duration::from_secs(10);

async fn a_failover_that_missed_the_grant_is_fenced(stage: &Stage) -> Outcome {
    // It believes for as long as a failover takes, and hears nothing of it.
    let a = stage.client_with(0, stage.options().ttl(PATIENT)).await?;
    let b = stage.client_with(1, stage.options().command_deadline(SOON)).await?;
    let resource = Resource::new(stage.recorder(), "stock");
    stage.act(Act::FallBehind).await?;
    let hold = stage.drive(a.take("stock", Want::Lock)).await?;
    ensure!(resource.write(&hold), "the holder's first write was refused");
    let may_overlap = matches!(stage.subject().belief(Mishap::FailOver), Belief::MayOverlap(_));
    if may_overlap {
        stage.expect_overlap();
    }
    stage.act(Act::HoldRequests(client(0))).await?;
    stage.act(Act::FailOver).await?;
    let next = stage.drive(b.take_within("stock", Want::Lock, SOON)).await?;
    let Some(next) = next else {
        ensure!(!may_overlap, "the overlap that is declared could not be forced");
        return Ok(());
    };
    ensure!(may_overlap, "two believe that they hold, and that is not declared");
    ensure!(hold.state() != State::Lost, "the first holder does not believe any more: nothing is shown");
    ensure!(next.token() > hold.token(), "token {} after {}", next.token(), hold.token());
    ensure!(resource.write(&next), "the new holder's write was refused");
    ensure!(!resource.write(&hold), "the old holder's write was accepted");
    stage.act(Act::Heal).await?;
    let told = async || hold.state() == State::Lost;
    stage.until(PATIENT / 3 + SOON, "the old holder learns that it has lost", told).await?;
    ensure!(next.state() == State::Held, "the new holder lost what it holds");
    next.release().await?;
    Ok(())
}

async fn a_failover_loses_nothing_that_was_replicated(stage: &Stage) -> Outcome {
    let a = stage.client_with(0, stage.options().ttl(PATIENT)).await?;
    let b = stage.client_with(1, stage.options().ttl(PATIENT)).await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..100 {
        let name = format!("name {number}");
        holds.push(stage.drive(a.take(&name, Want::Lock)).await?);
        waiting.push(stage.waiter(&b, &name, Want::Lock).await?);
    }
    stage.pass(stage.ttl()).await; // what was written last is replicated
    stage.act(Act::FailOver).await?;
    for hold in &holds {
        ensure!(hold.state() != State::Lost, "a hold was lost, though it was replicated");
    }
    ensure!(waiting.iter().all(|waiter| !waiter.is_done()), "a waiter was granted what is held");
    for (hold, waiter) in holds.into_iter().zip(waiting) {
        let before = hold.token();
        drop(hold); // the way to the new master may not be there yet: it is given back as soon as it is
        let next = stage.turn_within(SOON, waiter).await?;
        ensure!(next.token() > before, "token {} after {before}", next.token());
    }
    Ok(())
}

/// Clients that have nothing but one place in line, on the server that dies: nothing else makes them connect anew.
async fn who_only_waits_is_granted_after_a_failover(stage: &Stage) -> Outcome {
    let holder = stage.client_with(0, stage.options().ttl(PATIENT)).await?;
    let mut hold = holder.take("stock", Want::Lock).await?;
    let mut waiting = Vec::new();
    for number in 1..=4 {
        let one = stage.client_with(number, stage.options().ttl(PATIENT)).await?;
        waiting.push(stage.waiter(&one, "stock", Want::Lock).await?);
    }
    stage.pass(stage.ttl() / 2).await; // what was written last is replicated
    stage.act(Act::FailOver).await?;
    ensure!(hold.state() != State::Lost, "a hold was lost, though it was replicated");
    ensure!(waiting.iter().all(|waiter| !waiter.is_done()), "a waiter was granted what is held");
    for waiter in waiting {
        let before = hold.token();
        hold.release().await?;
        hold = stage.turn_within(PATIENT / 3, waiter).await?;
        ensure!(hold.token() > before, "token {} after {before}", hold.token());
    }
    Ok(())
}
