//! Point 4. By its own clock a guard is lost before the server can have given its place away, and not earlier.

use std::time::Duration;

use tidelock_core::{ErrorKind, State};

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Want};

trials! {
    loss_is_told_before_the_lease_can_have_ended: points [4], lessons [1, 21], needs [Refuse];
    a_deadline_counts_from_before_the_request: points [4], lessons [1], needs [Delay];
    one_failed_renewal_is_jeopardy_and_not_loss: points [4], lessons [2], needs [Refuse];
    a_hold_outlives_many_ttls: points [4], lessons [], needs [];
    a_busy_runtime_keeps_what_it_holds: points [4, 9], lessons [21], needs [];
    the_lost_future_fires_after_a_sleep_past_the_ttl: points [4], lessons [21], needs [Sleep];
    an_ended_session_is_told_to_every_guard: points [4], lessons [1, 21], needs [EndSession];
    a_lost_guard_stays_lost: points [4], lessons [], needs [Refuse];
    work_stops_when_its_guard_is_lost: points [4], lessons [], needs [EndSession];
    the_longest_hold_ends_however_healthy_its_keeper: points [4], lessons [], needs [];
}

async fn loss_is_told_before_the_lease_can_have_ended(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let mut holds = Vec::new();
    let asked = stage.now();
    for (number, want) in Want::ALONE.into_iter().enumerate() {
        holds.push(a.take(&format!("held {number}"), want).await?);
    }
    let fired = holds.iter().map(|hold| tokio::spawn(hold.guard().lost())).collect::<Vec<_>>();
    stage.act(Act::Refuse(client(0))).await?;
    loop {
        let passed = stage.now().since(asked); // before the look: the machine may stand still between the two
        if holds.iter().all(|hold| hold.state() == State::Lost) {
            break;
        }
        ensure!(
            passed < stage.ttl(),
            "the ttl is over, {passed:?} after the request, but the guard is not lost"
        );
        stage.pass(stage.ttl() / 100).await;
    }
    let all = async || fired.iter().all(tokio::task::JoinHandle::is_finished);
    stage.until(Duration::from_millis(200), "the future of each loss is ready", all).await?;
    ensure!(holds.iter().all(|hold| hold.guard().remaining().is_zero()), "a lost guard has time remaining");
    stage.act(Act::Heal).await
}

async fn a_deadline_counts_from_before_the_request(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let slow = stage.ttl() / 10;
    a.take("warm", Want::Lock).await?.release().await?;
    stage.act(Act::Delay(client(0), slow)).await?;
    let asked = stage.now();
    let hold = stage.drive(a.take("slow", Want::Lock)).await?;
    let took = stage.now().since(asked);
    let remaining = hold.guard().remaining();
    ensure!(
        remaining + took <= stage.ttl(),
        "{took:?} after the request, the guard has {remaining:?} left, with a ttl of {:?}",
        stage.ttl()
    );
    // Renewals take as long: the lifetime that they promise never reaches a whole ttl beyond the reply.
    for _ in 0..60 {
        stage.pass(stage.ttl() / 40).await;
        let remaining = hold.guard().remaining();
        ensure!(
            remaining + slow <= stage.ttl(),
            "after the reply to a renewal that took {slow:?}, the guard has {remaining:?} left, with a ttl of {:?}",
            stage.ttl()
        );
    }
    ensure!(hold.state() != State::Lost, "slow renewals lost the hold");
    stage.act(Act::Heal).await
}

async fn one_failed_renewal_is_jeopardy_and_not_loss(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    stage.act(Act::Refuse(client(0))).await?;
    let noticed = async || hold.state() != State::Held;
    stage.until(stage.ttl() / 2, "the guard shows that a renewal failed", noticed).await?;
    ensure!(hold.state() == State::Jeopardy, "one failed renewal lost the hold");
    stage.act(Act::Heal).await?;
    let recovered = async || hold.state() == State::Held;
    stage.until(stage.ttl() / 2, "the renewal is tried again and succeeds", recovered).await?;
    stage.pass(stage.ttl() * 2).await;
    ensure!(hold.state() == State::Held, "renewals stopped after one had failed");
    Ok(())
}

async fn a_hold_outlives_many_ttls(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let mut holds = Vec::new();
    for want in [Want::Lock, Want::Write, Want::Permits(2, 3)] {
        holds.push(a.take(&format!("long {want}"), want).await?);
    }
    let waiting = stage.waiter(&b, "long lock", Want::Lock).await?;
    stage.pass(stage.ttl() * 4).await;
    ensure!(holds.iter().all(|hold| hold.state() == State::Held), "a hold was lost although nothing failed");
    ensure!(!waiting.is_done(), "a waiter got in while the lock was held");
    drop(holds);
    stage.turn(waiting).await?;
    Ok(())
}

async fn a_busy_runtime_keeps_what_it_holds(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    let (time, by) = (stage.time().clone(), stage.ttl() * 2);
    // The user's own runtime does nothing for two ttls: its only thread is blocked.
    let stuck = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a small runtime");
        runtime.block_on(async {
            time.stick(by);
            hold.state()
        })
    });
    let ended = async || stuck.is_finished();
    stage.until(stage.ttl() * 3, "the busy runtime is done", ended).await?;
    let state = stuck.join().expect("being stuck does not panic");
    ensure!(state == State::Held, "a runtime that was busy for two ttls lost its hold: {state:?}");
    Ok(())
}

async fn the_lost_future_fires_after_a_sleep_past_the_ttl(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    let lost = tokio::spawn(hold.guard().lost());
    stage.act(Act::Sleep(stage.ttl() * 2)).await?;
    ensure!(hold.state() == State::Lost, "a guard is not lost after its machine slept for two ttls");
    let fired = async || lost.is_finished();
    stage.until(Duration::from_millis(200), "the future of the loss is ready", fired).await?;
    stage.drive(b.take("kept", Want::Lock)).await?.release().await?;
    let late = stage.drive(hold.release()).await;
    ensure!(
        late.is_err_and(|error| error.kind() == ErrorKind::Lost),
        "releasing a lost guard is reported as success"
    );
    Ok(())
}

async fn an_ended_session_is_told_to_every_guard(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let mut holds = Vec::new();
    for want in [Want::Lock, Want::Write, Want::Read, Want::Permits(2, 3)] {
        holds.push(a.take(&format!("ended {want}"), want).await?);
    }
    stage.act(Act::EndSession(client(0))).await?;
    let told = async || holds.iter().all(|hold| hold.state() == State::Lost);
    stage.until(stage.ttl() / 2, "every guard of an ended session is lost", told).await?;
    stage.drive(b.take("ended lock", Want::Lock)).await?.release().await?;
    for hold in holds {
        let late = stage.drive(hold.release()).await;
        ensure!(
            late.is_err_and(|error| error.kind() == ErrorKind::Lost),
            "releasing a lost guard is reported as success"
        );
    }
    Ok(())
}

async fn a_lost_guard_stays_lost(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    stage.act(Act::Refuse(client(0))).await?;
    let lost = async || hold.state() == State::Lost;
    stage.until(stage.ttl() * 11 / 10, "the hold is lost", lost).await?;
    stage.act(Act::Heal).await?;
    stage.pass(stage.ttl()).await;
    ensure!(hold.state() == State::Lost, "a lost guard became valid again");
    let again = stage.drive(a.take_within("kept", Want::Lock, stage.ttl())).await?;
    ensure!(again.is_some(), "the client cannot lock the lost name again");
    Ok(())
}

async fn work_stops_when_its_guard_is_lost(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("work", Want::Lock).await?;
    ensure!(hold.guard().run(async { 7 }).await? == 7, "work under a guard returned another value");
    let endless = hold.guard().run(std::future::pending::<()>());
    let (ended, acted) = tokio::join!(stage.drive(endless), stage.act(Act::EndSession(client(0))));
    acted?;
    ensure!(
        ended.is_err_and(|error| error.kind() == ErrorKind::Lost),
        "work continued after its guard was lost"
    );
    Ok(())
}

async fn the_longest_hold_ends_however_healthy_its_keeper(stage: &Stage) -> Outcome {
    let longest = stage.ttl() / 2;
    let a = stage.client_with(0, stage.options().max_hold(longest)).await?;
    let b = stage.client(1).await?;
    let hold = a.take("bounded", Want::Lock).await?;
    let waiting = stage.waiter(&b, "bounded", Want::Lock).await?;
    ensure!(hold.state() == State::Held, "the hold was lost too early");
    let lost = async || hold.state() == State::Lost;
    stage.until(longest * 11 / 10, "a hold ends after max_hold", lost).await?;
    stage.turn(waiting).await?;
    Ok(())
}
