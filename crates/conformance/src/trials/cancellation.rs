//! Point 6. Dropping any future at any await leaves nothing behind, after at most a second.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_core::ErrorKind;

use crate::failure::{Failure, Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Stage, Want};

trials! {
    an_acquire_dropped_after_any_number_of_polls_leaves_nothing: points [6], lessons [5], needs [Delay];
    an_acquire_dropped_before_its_first_poll_asks_nothing: points [6], lessons [5, 17], needs [Count];
    an_acquire_dropped_with_its_request_held_back_leaves_nothing: points [6, 7], lessons [5], needs [HoldBack];
    an_acquire_dropped_with_its_reply_held_back_leaves_nothing: points [6], lessons [5], needs [HoldBack];
    an_acquire_dropped_with_its_reply_arrived_leaves_nothing: points [6], lessons [5], needs [];
    a_lost_reply_to_an_acquire_strands_no_claim: points [6], lessons [6], needs [LoseReplies];
    a_lost_reply_to_an_acquire_is_no_answer: points [6, 1], lessons [6], needs [LoseReplies];
    patience_that_ends_leaves_the_line: points [6], lessons [19], needs [];
    a_waiter_that_gives_up_lets_the_next_one_pass: points [6, 3], lessons [], needs [];
    dropped_releases_and_downgrades_give_back: points [6], lessons [], needs [];
    a_panicking_holder_gives_back: points [6], lessons [], needs [];
}

/// How often a trial looks for a moment in which nothing else is sent.
const ATTEMPTS: u32 = 5;

/// Polls a future this often, or as often as it wants while `longest` passes, and drops it.
async fn poll_and_drop<T>(
    stage: &Stage,
    mut future: Pin<Box<impl Future<Output = T>>>,
    polls: u32,
    longest: Duration,
) {
    let mut left = polls;
    let polled = poll_fn(|cx| {
        if left == 0 || future.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        left -= 1;
        if left == 0 { Poll::Ready(()) } else { Poll::Pending }
    });
    tokio::select! {
        biased;
        () = polled => {}
        () = stage.pass(longest) => {}
    }
}

async fn an_acquire_dropped_after_any_number_of_polls_leaves_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let slow = stage.ttl() / 100;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in [Want::Lock, Want::Read, Want::Write, Want::Permits(2, 2)] {
        for is_taken in [false, true] {
            let name = format!("dropped {want}, taken: {is_taken}");
            let alone = if want == Want::Read { Want::Write } else { want };
            let held = if is_taken { Some(b.take(&name, alone).await?) } else { None };
            for polls in 0..6 {
                stage.act(Act::Delay(client(0), slow)).await?;
                poll_and_drop(stage, Box::pin(a.take(&name, want)), polls, slow * 3).await;
                let only_the_holder = async || {
                    let line = stage.watcher().line(&name).await;
                    line.is_ok_and(|line| line.claims.len() == usize::from(is_taken))
                };
                let what = format!("nothing is left of {name} after {polls} polls");
                stage.until(Duration::from_secs(1), &what, only_the_holder).await?;
            }
            stage.act(Act::Heal).await?;
            drop(held);
            stage.until_empty(&name).await?;
        }
    }
    Ok(())
}

async fn an_acquire_dropped_before_its_first_poll_asks_nothing(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    let mutex = a.locks().mutex("never polled")?;
    // A client sends something of its own now and then, but not every time.
    for _ in 0..ATTEMPTS {
        let before = stage.counts().await?;
        for _ in 0..10 {
            drop(mutex.lock());
            drop(mutex.try_lock());
            drop(mutex.lock_within(stage.ttl()));
        }
        if stage.counts().await? == before {
            return stage.until_empty("never polled").await;
        }
    }
    Err(Failure::new("a future that was never polled sent something"))
}

/// A task of `client 0` asks for `name` during `act`, and gives up; then everything is healed.
async fn give_up_under(stage: &Stage, asking: &Client, act: Act, name: &str, want: Want) -> Outcome {
    stage.act(act).await?;
    let mut asked = Box::pin(asking.take(name, want));
    for _ in 0..4 {
        ensure!(
            asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending(),
            "an answer came although everything was held back"
        );
        stage.pass(Duration::from_millis(1)).await;
    }
    drop(asked);
    stage.pass(Duration::from_millis(20)).await;
    stage.act(Act::Heal).await
}

async fn an_acquire_dropped_with_its_request_held_back_leaves_nothing(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("held back {want}");
        give_up_under(stage, &a, Act::HoldRequests(client(0)), &name, want).await?;
        stage.until_empty(&name).await?;
        stage.pass(stage.ttl()).await;
        ensure!(stage.watcher().is_empty(&name).await, "a held-back request left a claim after it arrived");
    }
    Ok(())
}

async fn an_acquire_dropped_with_its_reply_held_back_leaves_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("unanswered {want}");
        give_up_under(stage, &a, Act::HoldReplies(client(0)), &name, want).await?;
        stage.until_empty(&name).await?;
        ensure!(b.try_take(&name, want).await?.is_some(), "{name} is not free for the next claim");
    }
    Ok(())
}

async fn an_acquire_dropped_with_its_reply_arrived_leaves_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("arrived {want}");
        let mut asked = Box::pin(a.take(&name, want));
        if asked.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            // The call is not polled while its reply arrives.
            let stands = async || !stage.watcher().is_empty(&name).await;
            stage.until(Duration::from_secs(1), "its claim stands in line", stands).await?;
            stage.pass(Duration::from_millis(20)).await;
        }
        drop(asked);
        stage.until_empty(&name).await?;
        ensure!(b.try_take(&name, want).await?.is_some(), "{name} is not free for the next claim");
    }
    Ok(())
}

async fn a_lost_reply_to_an_acquire_strands_no_claim(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("unanswered {want}");
        // Every reply is lost, so the call ends in an error. A grant that it may have received is given back.
        stage.act(Act::LoseReplies(client(0), usize::MAX)).await?;
        let asked = stage.drive(a.try_take(&name, want)).await;
        stage.act(Act::Heal).await?;
        let kind = asked.map(|hold| hold.is_some()).map_err(|error| error.kind());
        ensure!(kind == Err(ErrorKind::Timeout), "a lost reply was reported as {kind:?}");
        stage.until_empty(&name).await?;
    }
    Ok(())
}

async fn a_lost_reply_to_an_acquire_is_no_answer(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    b.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        // Held by another client: the lost reply said "waiting", and must not be taken for a grant.
        let name = format!("held {want}");
        let hold = a.take(&name, want).await?;
        stage.act(Act::LoseReplies(client(1), 1)).await?;
        let waiting = stage.waiter(&b, &name, want).await?;
        stage.pass(stage.ttl() / 2).await;
        ensure!(!waiting.is_done(), "a lost reply was taken for a grant of {name}");
        hold.release().await?;
        stage.turn(waiting).await?.release().await?;
        // Free: the lost reply said "granted", and must not be taken for a refusal.
        let name = format!("free {want}");
        stage.act(Act::LoseReplies(client(1), 1)).await?;
        let taken = stage.drive(b.try_take(&name, want)).await?;
        ensure!(taken.is_some(), "a lost reply was taken for a refusal of {name}");
        stage.act(Act::Heal).await?;
    }
    Ok(())
}

async fn patience_that_ends_leaves_the_line(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let patience = stage.ttl() / 20;
    for want in Want::ALONE {
        let name = format!("busy {want}");
        let hold = a.take(&name, want).await?;
        let asked = stage.now();
        let waited = stage.drive(b.take_within(&name, want, patience)).await?;
        let took = stage.now().since(asked);
        ensure!(waited.is_none(), "{name} was granted twice");
        ensure!(took >= patience, "patience of {patience:?} ended after {took:?}");
        ensure!(
            stage.is_in_time(asked, patience + stage.ttl() / 2),
            "patience of {patience:?} ended after {took:?}"
        );
        let gone = async || stage.watcher().waiters(&name).await == 0;
        stage.until(Duration::from_secs(1), "the claim whose patience ended has left", gone).await?;
        hold.release().await?;
    }
    Ok(())
}

async fn a_waiter_that_gives_up_lets_the_next_one_pass(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    // When a waiting writer gives up, the readers behind it join the reader in front.
    let reading = a.take("table", Want::Read).await?;
    let writer = stage.waiter(&b, "table", Want::Write).await?;
    let behind = stage.waiter(&c, "table", Want::Read).await?;
    drop(writer);
    stage.turn(behind).await?;
    drop(reading);
    // When a large request gives up, the small one behind it gets in.
    let held = a.take("pool", Want::Permits(1, 3)).await?;
    let large = stage.waiter(&b, "pool", Want::Permits(3, 3)).await?;
    let small = stage.waiter(&c, "pool", Want::Permits(2, 3)).await?;
    drop(large);
    stage.turn(small).await?;
    drop(held);
    // A waiter in the middle of a mutex's line gives up.
    let held = a.take("mutex", Want::Lock).await?;
    let first = stage.waiter(&b, "mutex", Want::Lock).await?;
    let second = stage.waiter(&c, "mutex", Want::Lock).await?;
    drop(first);
    let one_left = async || stage.watcher().waiters("mutex").await == 1;
    stage.until(Duration::from_secs(1), "the claim that gave up has left", one_left).await?;
    held.release().await?;
    stage.turn(second).await?;
    Ok(())
}

async fn dropped_releases_and_downgrades_give_back(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let longest = stage.ttl() / 100;
    for polls in 0..4 {
        let hold = a.take("released", Want::Lock).await?;
        poll_and_drop(stage, Box::pin(hold.release()), polls, longest).await;
        stage.until_empty("released").await?;
        let writer = a.take("downgraded", Want::Write).await?;
        poll_and_drop(stage, Box::pin(writer.downgrade()), polls, longest).await;
        stage.until_empty("downgraded").await?;
    }
    Ok(())
}

async fn a_panicking_holder_gives_back(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("poisoned", Want::Lock).await?;
    // Unwinds without the panic hook's message, which nobody needs here.
    let ended = std::thread::spawn(move || {
        let _held = hold;
        std::panic::resume_unwind(Box::new("on purpose"));
    });
    ensure!(ended.join().is_err(), "it did not panic");
    stage.until_empty("poisoned").await
}
