//! Point 13. What a restart, a failover or a step of the clock costs is declared; an old token never comes again.

use tidelock::State;

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Belief, Mishap, Resource, Stage, Want, Whom};

trials! {
    tokens_grow_over_a_restart: points [13, 2], lessons [22], needs [Restart];
    a_restart_leaves_every_lock_usable: points [13, 5], lessons [], needs [Restart];
    a_server_that_refused_for_a_while_keeps_every_hold: points [13, 4], lessons [2], needs [Refuse];
    waiters_outlast_a_server_that_refuses_for_a_while: points [13, 8], lessons [8], needs [Refuse];
    a_failover_leaves_the_lock_usable_and_the_fence_refuses: points [13, 1, 2], lessons [23], needs [FailOver];
    a_step_of_the_servers_clock_is_fenced: points [13, 1, 2], lessons [23], needs [StepClock];
}

async fn tokens_grow_over_a_restart(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    for want in Want::ALONE {
        let name = format!("kept {want}");
        let mut last = None;
        for round in 0..3 {
            let hold = stage.drive(a.take(&name, want)).await?;
            ensure!(
                Some(hold.token()) > last,
                "after restart {round}: token {} after {last:?}",
                hold.token()
            );
            last = Some(hold.token());
            overlap(stage, Mishap::Restart);
            stage.act(Act::Restart).await?;
            drop(hold);
            let hold = stage.drive(b.take_within(&name, want, stage.ttl() * 11 / 10)).await?;
            let Some(hold) = hold else {
                return Err(crate::Failure::new(format!("{name} is of no use within a ttl and a tenth")));
            };
            ensure!(
                Some(hold.token()) > last,
                "after restart {round}: token {} after {last:?}",
                hold.token()
            );
            last = Some(hold.token());
            hold.release().await?;
        }
    }
    Ok(())
}

/// Where two may both believe, the history is told so.
fn overlap(stage: &Stage, mishap: Mishap) {
    if matches!(stage.subject().belief(mishap), Belief::MayOverlap(_)) {
        stage.expect_overlap();
    }
}

async fn a_restart_leaves_every_lock_usable(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let name = format!("name {number}");
        holds.push(a.take(&name, Want::Lock).await?);
        waiting.push(stage.waiter(&b, &name, Want::Lock).await?);
    }
    overlap(stage, Mishap::Restart);
    stage.act(Act::Restart).await?;
    drop(holds); // kept or lost, they are given back
    for waiter in waiting {
        stage.turn_within(stage.ttl() * 11 / 10, waiter).await?.release().await?;
    }
    Ok(())
}

async fn a_server_that_refused_for_a_while_keeps_every_hold(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    stage.act(Act::Refuse(Whom::Everyone)).await?;
    stage.pass(stage.ttl() / 2).await;
    stage.act(Act::Heal).await?;
    ensure!(hold.state() != State::Lost, "half a ttl without the server lost a hold");
    let recovered = async || hold.state() == State::Held;
    stage.until(stage.ttl() / 2, "the hold is renewed again", recovered).await?;
    ensure!(b.try_take("kept", Want::Lock).await?.is_none(), "it was granted twice");
    hold.release().await?;
    Ok(())
}

async fn waiters_outlast_a_server_that_refuses_for_a_while(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    let first = stage.waiter(&b, "kept", Want::Lock).await?;
    let second = stage.waiter(&c, "kept", Want::Lock).await?;
    stage.act(Act::Refuse(Whom::Everyone)).await?;
    drop(hold); // its leave is refused too, and repeated
    stage.pass(stage.ttl() / 3).await;
    stage.act(Act::Heal).await?;
    stage.turn_within(stage.ttl(), first).await?.release().await?;
    stage.turn(second).await?.release().await?;
    Ok(())
}

/// A mishap that gives the lock away under its holder: the fence refuses the old one, and the lock is usable.
async fn given_away(stage: &Stage, mishap: Mishap, act: Act) -> Outcome {
    let [a, b] = stage.clients().await?;
    let resource = Resource::new(stage.recorder(), "stock");
    let hold = a.take("stock", Want::Lock).await?;
    ensure!(resource.write(&hold), "the holder's first write was refused");
    overlap(stage, mishap);
    stage.act(act).await?;
    let next = stage.drive(b.take_within("stock", Want::Lock, stage.ttl() * 11 / 10)).await?;
    match (stage.subject().belief(mishap), next) {
        (Belief::MayOverlap(_), Some(next)) => {
            ensure!(resource.write(&next), "the new holder's write was refused");
            ensure!(!resource.write(&hold), "the old holder's write was accepted");
        }
        (Belief::MayOverlap(_), None) => {
            return Err(crate::Failure::new("the overlap that is declared could not be forced"));
        }
        (_, next) => {
            let both = next.is_some() && hold.state() != State::Lost;
            ensure!(!both, "two believe that they hold, and that is not declared");
        }
    }
    Ok(())
}

async fn a_failover_leaves_the_lock_usable_and_the_fence_refuses(stage: &Stage) -> Outcome {
    given_away(stage, Mishap::FailOver, Act::FailOver).await
}

async fn a_step_of_the_servers_clock_is_fenced(stage: &Stage) -> Outcome {
    given_away(stage, Mishap::ClockStep, Act::StepClock(stage.ttl() * 2)).await
}
