//! Point 13. The cost of a restart, a failover or a clock step is declared; an old token never comes again.

use std::time::Duration;

use tidelock_core::{ErrorKind, State, Token};

use crate::failure::{Failure, Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Belief, Client, Hold, Mishap, Resource, Stage, Want, Whom};

trials! {
    tokens_grow_over_a_restart: points [13, 2], lessons [22], needs [Restart];
    a_restart_leaves_every_lock_usable: points [13, 5], lessons [32], needs [Restart];
    a_server_that_refused_for_a_while_keeps_every_hold: points [13, 4], lessons [2, 32], needs [Refuse];
    waiters_outlast_a_server_that_refuses_for_a_while: points [13, 8], lessons [8], needs [Refuse];
    a_restart_under_a_holder_is_fenced: points [13, 1, 2], lessons [], needs [Restart];
    a_server_that_is_down_is_told_and_used_when_it_is_back: points [13, 11], lessons [], needs [Restart];
    a_paused_server_misleads_nobody: points [13, 4, 1], lessons [3, 23, 32], needs [Pause];
    a_server_that_forgets_under_a_holder_is_fenced: points [13, 1, 2], lessons [22], needs [Forget];
    tokens_grow_although_the_server_has_forgotten: points [13, 2], lessons [22], needs [Forget];
    tokens_grow_when_the_servers_clock_goes_back: points [13, 2], lessons [], needs [StepClock];
    a_step_of_the_servers_clock_is_fenced: points [13, 1, 2], lessons [23], needs [StepClock];
}

async fn tokens_grow_over_a_restart(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let mut last: [Option<Token>; Want::ALONE.len()] = Default::default();
    for act in [Act::Restart, Act::Crash] {
        let again = format!("after: {act}");
        let mut holds = Vec::new();
        for (want, last) in Want::ALONE.into_iter().zip(&mut last) {
            let hold = stage.drive(a.take(&kept(want), want)).await?;
            grows(last, hold.token(), &again)?;
            holds.push(hold);
        }
        overlap(stage, Mishap::Restart);
        stage.act(act).await?;
        drop(holds);
        for (want, last) in Want::ALONE.into_iter().zip(&mut last) {
            let hold = stage.drive(b.take_within(&kept(want), want, stage.ttl() * 11 / 10)).await?;
            let useless =
                || Failure::new(format!("{} was still unusable after a ttl and a tenth", kept(want)));
            let hold = hold.ok_or_else(useless)?;
            grows(last, hold.token(), &again)?;
            give_back(stage, &b, &kept(want), want, hold).await?;
        }
    }
    Ok(())
}

fn kept(want: Want) -> String {
    format!("kept {want}")
}

/// Checks that the next token of a name is greater, and remembers it.
fn grows(last: &mut Option<Token>, next: Token, when: &str) -> Outcome {
    ensure!(Some(next) > *last, "{when}: token {next} was granted after {last:?}");
    *last = Some(next);
    Ok(())
}

/// Gives back a hold that a restarted server granted. Another server may take over although the first is back, without
/// having heard of that grant. Then the lock must be available once more.
async fn give_back(stage: &Stage, client: &Client, name: &str, want: Want, hold: Hold) -> Outcome {
    match hold.release().await {
        Err(error) if error.kind() == ErrorKind::Lost && stage.may_overlap(Mishap::Restart) => {
            let hold = stage.drive(client.take_within(name, want, stage.ttl() * 11 / 10)).await?;
            let hold = hold.ok_or_else(|| Failure::new(format!("{name}, lost twice, is unusable")))?;
            Ok(hold.release().await?)
        }
        given_back => Ok(given_back?),
    }
}

/// Records the overlap in the history, if two clients may both believe that they hold.
fn overlap(stage: &Stage, mishap: Mishap) {
    if stage.may_overlap(mishap) {
        stage.expect_overlap();
    }
}

async fn a_restart_leaves_every_lock_usable(stage: &Stage) -> Outcome {
    // A claim that lost its place joins again: a cluster node accepts no claims in its first two seconds.
    let options = || stage.options().command_deadline(stage.ttl() * 10);
    let a = stage.client_with(0, options()).await?;
    let b = stage.client_with(1, options()).await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for number in 0..20 {
        let name = format!("name {number}");
        holds.push(a.take(&name, Want::Lock).await?);
        waiting.push(stage.waiter(&b, &name, Want::Lock).await?);
    }
    overlap(stage, Mishap::Restart);
    stage.act(Act::Restart).await?;
    drop(holds); // kept or lost, they are given back
    for (number, waiter) in waiting.into_iter().enumerate() {
        let hold = stage.turn_within(stage.ttl() * 11 / 10, waiter).await?;
        give_back(stage, &b, &format!("name {number}"), Want::Lock, hold).await?;
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
    drop(hold); // its leave is refused too, and is repeated
    stage.pass(stage.ttl() / 3).await;
    stage.act(Act::Heal).await?;
    stage.turn_within(stage.ttl(), first).await?.release().await?;
    stage.turn(second).await?.release().await?;
    Ok(())
}

/// A mishap that gives the lock to another client: the fence refuses the old holder, and the lock is usable.
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
            return Err(Failure::new("the declared overlap could not be forced"));
        }
        (_, next) => {
            let both = next.is_some() && hold.state() != State::Lost;
            ensure!(!both, "two clients believe that they hold, which is not declared");
        }
    }
    Ok(())
}

async fn a_restart_under_a_holder_is_fenced(stage: &Stage) -> Outcome {
    given_away(stage, Mishap::Restart, Act::Restart).await
}

async fn a_server_that_forgets_under_a_holder_is_fenced(stage: &Stage) -> Outcome {
    given_away(stage, Mishap::Forgetting, Act::Forget).await
}

async fn a_server_that_is_down_is_told_and_used_when_it_is_back(stage: &Stage) -> Outcome {
    let deadline = stage.ttl() / 2;
    let options = stage.options().command_deadline(deadline).connect_deadline(deadline).label("client 0");
    stage.act(Act::Stop).await?;
    let asked = stage.now();
    let refused = stage.drive(async {
        let locks = stage.server().connect(options).await?; // fails here, or at the first use
        locks.mutex("anything")?.lock().await.map(drop)
    });
    let refused = refused.await;
    let took = stage.now().since(asked);
    let can_retry = refused.as_ref().is_err_and(tidelock_core::Error::can_retry);
    ensure!(can_retry, "a server that is down was reported as {refused:?}");
    ensure!(
        stage.is_in_time(asked, deadline * 3),
        "the error took {took:?}, with a deadline of {deadline:?}"
    );
    stage.act(Act::Heal).await?;
    let a = stage.client(1).await?;
    stage.drive(a.take("anything", Want::Lock)).await?.release().await?;
    Ok(())
}

async fn a_paused_server_misleads_nobody(stage: &Stage) -> Outcome {
    let a = stage.client(0).await?;
    // A waiter must not give up before the server resumes, even if its join was not answered yet.
    let patient = stage.ttl() * 4;
    let b = stage.client_with(1, stage.options().command_deadline(patient).connect_deadline(patient)).await?;
    let resource = Resource::new(stage.recorder(), "stock");
    let hold = a.take("stock", Want::Lock).await?;
    let waiting = stage.waiter(&b, "stock", Want::Lock).await?;
    ensure!(resource.write(&hold), "the holder's write was refused");
    let paused = stage.now();
    stage.act(Act::Pause).await?;
    loop {
        let passed = stage.now().since(paused); // before the look: the machine may stand still between the two
        if hold.state() == State::Lost {
            break;
        }
        ensure!(
            passed < stage.ttl() * 11 / 10,
            "{passed:?} after the server was paused, the guard is not lost"
        );
        stage.pass(stage.ttl() / 100).await;
    }
    stage.pass(stage.ttl() / 2).await;
    if waiting.is_done() {
        let granted = waiting.hold().await?.token();
        return Err(Failure::new(format!("a paused server granted token {granted}")));
    }
    stage.act(Act::Heal).await?;
    let next = stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    ensure!(resource.write(&next), "the next holder's write was refused");
    ensure!(!resource.write(&hold), "the write of a holder whose guard is lost was accepted");
    let late = stage.drive(hold.release()).await;
    ensure!(
        late.is_err_and(|error| error.kind() == ErrorKind::Lost),
        "releasing a lost guard is reported as success"
    );
    ensure!(next.state() == State::Held, "a late release cost the successor its hold");
    next.release().await?;
    Ok(())
}

async fn tokens_grow_although_the_server_has_forgotten(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    for want in Want::ALONE {
        let (name, mut last) = (format!("forgotten {want}"), None);
        for client in [&a, &b, &a, &b] {
            let hold = stage.drive(client.take(&name, want)).await?;
            ensure!(Some(hold.token()) > last, "{name}: token {} was granted after {last:?}", hold.token());
            last = Some(hold.token());
            hold.release().await?;
            stage.act(Act::Forget).await?;
        }
    }
    Ok(())
}

async fn tokens_grow_when_the_servers_clock_goes_back(stage: &Stage) -> Outcome {
    const HOUR: Duration = Duration::from_secs(60 * 60);
    let [a, b] = stage.clients().await?;
    let kept = a.take("kept", Want::Lock).await?;
    let waiting = stage.waiter(&b, "kept", Want::Lock).await?;
    let mut last = None;
    for (step, client) in
        [None, Some(Act::StepClockBack(HOUR)), Some(Act::StepClock(HOUR / 2))].into_iter().zip([&a, &b, &a])
    {
        if let Some(step) = step {
            overlap(stage, Mishap::ClockStep);
            stage.act(step).await?;
        }
        let hold = stage.drive(client.take("stepped", Want::Lock)).await?;
        ensure!(Some(hold.token()) > last, "token {} was granted after {last:?}", hold.token());
        last = Some(hold.token());
        hold.release().await?;
    }
    let before = kept.token();
    drop(kept);
    let next = stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    ensure!(next.token() > before, "token {} was granted after token {before}", next.token());
    stage.act(Act::StepClock(HOUR / 2)).await // back to the right time
}

async fn a_step_of_the_servers_clock_is_fenced(stage: &Stage) -> Outcome {
    given_away(stage, Mishap::ClockStep, Act::StepClock(stage.ttl() * 2)).await
}
