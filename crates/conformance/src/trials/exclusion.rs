//! Point 1. Two guards that conflict are never both held. Where a mishap lets two clients believe that they hold, the
//! fence refuses one.

use tidelock_core::State;

use crate::crowd::Crowd;
use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Mishap, Resource, Stage, Waiter, Want};

/// How often a released lock is requested again at once: one of several servers may lag behind now and then.
const HANDED_ROUND: usize = 200;

trials! {
    a_mutex_has_one_holder_in_a_crowd: points [1, 2], lessons [], needs [];
    a_writer_never_meets_anyone_in_a_crowd: points [1, 2], lessons [], needs [];
    permits_never_exceed_the_size_in_a_crowd: points [1], lessons [], needs [];
    a_fickle_crowd_of_every_kind_never_overlaps: points [1, 2, 6], lessons [5], needs [];
    permits_never_exceed_a_size_that_changes: points [1], lessons [], needs [];
    contention_is_a_value_and_no_error: points [1], lessons [], needs [];
    readers_hold_together: points [1], lessons [], needs [];
    a_guard_moves_between_threads_and_tasks: points [1], lessons [16], needs [];
    one_client_serves_many_runtimes: points [1], lessons [26], needs [];
    many_names_are_taken_together_or_not_at_all: points [1, 6], lessons [20], needs [];
    opposite_orders_of_names_do_not_deadlock: points [1, 3], lessons [20], needs [];
    an_evicted_waiter_gets_no_turn: points [1, 7], lessons [], needs [];
    an_evicted_holders_write_is_refused: points [1, 2], lessons [], needs [DropSignals];
    a_stopped_clients_late_write_is_refused: points [1, 2, 4], lessons [], needs [Sleep];
    a_grant_from_before_a_stall_is_not_believed_after_it: points [1, 2, 4], lessons [33], needs [HoldBack];
}

async fn a_mutex_has_one_holder_in_a_crowd(stage: &Stage) -> Outcome {
    let clients = stage.clients::<4>().await?;
    let names = (0..3).map(|n| (format!("mutex {n}"), vec![Want::Lock])).collect();
    let crowd = Crowd { names, tasks: 6, rounds: stage.many(25, 1_000), is_fickle: false };
    crowd.play(stage, &clients).await
}

async fn a_writer_never_meets_anyone_in_a_crowd(stage: &Stage) -> Outcome {
    let clients = stage.clients::<3>().await?;
    let names = (0..2).map(|n| (format!("table {n}"), vec![Want::Read, Want::Read, Want::Write])).collect();
    let crowd = Crowd { names, tasks: 6, rounds: stage.many(25, 1_000), is_fickle: false };
    crowd.play(stage, &clients).await
}

async fn permits_never_exceed_the_size_in_a_crowd(stage: &Stage) -> Outcome {
    let clients = stage.clients::<3>().await?;
    let wants = (1..=5).map(|n| Want::Permits(n, 5)).collect();
    let names = vec![("permits".to_owned(), wants)];
    let crowd = Crowd { names, tasks: 6, rounds: stage.many(25, 1_000), is_fickle: false };
    crowd.play(stage, &clients).await
}

async fn a_fickle_crowd_of_every_kind_never_overlaps(stage: &Stage) -> Outcome {
    let clients = stage.clients::<3>().await?;
    let names = vec![
        ("mutex".to_owned(), vec![Want::Lock]),
        ("table".to_owned(), vec![Want::Read, Want::Write]),
        ("permits".to_owned(), vec![Want::Permits(1, 3), Want::Permits(2, 3), Want::Permits(3, 3)]),
    ];
    let crowd = Crowd { names, tasks: 8, rounds: stage.many(30, 1_000), is_fickle: true };
    crowd.play(stage, &clients).await?;
    for name in ["mutex", "table", "permits"] {
        stage.until_empty(name).await?;
    }
    Ok(())
}

async fn permits_never_exceed_a_size_that_changes(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let first = a.take("pool", Want::Permits(2, 4)).await?;
    let second = b.take("pool", Want::Permits(2, 4)).await?;
    // A shrink takes nothing back, and lets no claim in before enough permits have been given back.
    c.resize("pool", 2).await?;
    let waiting = stage.waiter(&c, "pool", Want::Permits(1, 2)).await?;
    ensure!(first.state() == State::Held && second.state() == State::Held, "a shrink took a hold back");
    first.release().await?;
    stage.pass(stage.ttl()).await;
    ensure!(!waiting.is_done(), "two of two permits are held, and a third was granted");
    let refused = c.resize("pool", u32::MAX).await;
    ensure!(refused.is_err(), "a size of zero was accepted");
    // Growth wakes the claims that fit now.
    b.resize("pool", 3).await?;
    let third = stage.turn(waiting).await?;
    ensure!(
        b.try_take("pool", Want::Permits(1, 3)).await?.is_none(),
        "three of three are held, and a fourth was granted"
    );
    // A shrink that would strand a waiter is refused.
    let waiting = stage.waiter(&a, "pool", Want::Permits(3, 3)).await?;
    ensure!(b.resize("pool", 2).await.is_err(), "a waiter for three was stranded by a size of two");
    second.release().await?;
    third.release().await?;
    stage.turn(waiting).await?.release().await?;
    Ok(())
}

async fn contention_is_a_value_and_no_error(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    for want in Want::ALONE {
        let name = format!("busy {want}");
        let hold = a.take(&name, want).await?;
        for other in [&a, &b] {
            ensure!(other.try_take(&name, want).await?.is_none(), "{name} was granted twice");
            let patient = other.take_within(&name, want, stage.ttl() / 5);
            ensure!(stage.drive(patient).await?.is_none(), "{name} was granted twice");
        }
        hold.release().await?;
        ensure!(b.try_take(&name, want).await?.is_some(), "{name} is free, and was refused");
    }
    // A client sees at once what was taken and what was given back, even through another server.
    for round in 0..HANDED_ROUND {
        let [giver, taker] = [0, 1].map(|next| [&a, &b, &c][(round + next) % 3]);
        let hold = giver.take("round", Want::Lock).await?;
        let holders = taker.line("round").await?.holders().count();
        ensure!(holders == 1, "round {round}: the lock is held, but its line shows {holders} holders");
        hold.release().await?;
        let taken = taker.try_take("round", Want::Lock).await?;
        ensure!(taken.is_some(), "round {round}: the lock is free, but was refused");
        if let Some(hold) = taken {
            hold.release().await?;
        }
    }
    Ok(())
}

async fn readers_hold_together(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let writer = a.take("table", Want::Write).await?;
    let waiting = stage.waiters(&[a, b.clone(), c], "table", Want::Read, 9).await?;
    writer.release().await?;
    let mut readers = Vec::new();
    for reader in waiting {
        readers.push(stage.turn(reader).await?); // no reader has left when the last one enters
    }
    ensure!(b.try_take("table", Want::Write).await?.is_none(), "a writer was let in among readers");
    Ok(())
}

async fn a_guard_moves_between_threads_and_tasks(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("carried", Want::Lock).await?;
    let hold = std::thread::spawn(move || hold).join().expect("moving does not panic");
    let carried = tokio::spawn(async move {
        let state = hold.state();
        hold.release().await.map(|()| state)
    });
    ensure!(carried.await?? == State::Held, "a guard was lost on its way to another task");
    ensure!(
        b.try_take("carried", Want::Lock).await?.is_some(),
        "a release in another task gave nothing back"
    );
    // It may also be dropped outside every runtime.
    let hold = a.take("dropped", Want::Lock).await?;
    std::thread::spawn(move || drop(hold)).join().expect("dropping does not panic");
    stage.until_empty("dropped").await
}

async fn one_client_serves_many_runtimes(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let runtimes = stage.many(20, 100);
    for round in 0..runtimes {
        let client = if round % 2 == 0 { a.clone() } else { b.clone() };
        let elsewhere = std::thread::spawn(move || -> Outcome {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.map_err(|error| crate::Failure::new(error.to_string()))?;
            runtime.block_on(async { Ok(client.take("shared", Want::Lock).await?.release().await?) })
        });
        let ended = async || elsewhere.is_finished();
        stage.until(stage.ttl(), "another runtime takes it and gives it back", ended).await?;
        elsewhere.join().expect("the trial's own thread does not panic")?;
    }
    Ok(())
}

async fn many_names_are_taken_together_or_not_at_all(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let busy = b.take("name 2", Want::Lock).await?;
    let names = ["name 3", "name 1", "name 2", "name 1"];
    let taken = stage.drive(a.locks().lock_all_within(&names, stage.ttl() / 5)).await?;
    ensure!(taken.is_none(), "all were taken although another client holds one");
    for name in ["name 1", "name 3"] {
        stage.until_empty(name).await?;
    }
    busy.release().await?;
    let all = stage.drive(a.locks().lock_all(&names)).await?;
    ensure!(all.iter().count() == 3, "a name that is given twice was not taken once");
    for name in ["name 1", "name 2", "name 3"] {
        ensure!(
            b.try_take(name, Want::Lock).await?.is_none(),
            "{name} was granted although it is held with others"
        );
    }
    all.release().await?;
    Ok(())
}

async fn opposite_orders_of_names_do_not_deadlock(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let rounds = stage.many(50, 2_000);
    let circle = |client: crate::Client, names: [&'static str; 3]| {
        tokio::spawn(async move {
            for _ in 0..rounds {
                client.locks().lock_all(&names).await?.release().await?;
            }
            Outcome::Ok(())
        })
    };
    let (there, back) = (circle(a, ["x", "y", "z"]), circle(b, ["z", "y", "x"]));
    stage.drive(there).await??;
    stage.drive(back).await?
}

/// It is evicted while another holds, and then that one leaves. A client that watches what is ahead of its claim, and not
/// the claim, takes that for its turn.
async fn an_evicted_waiter_gets_no_turn(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    for want in Want::ALONE {
        let name = format!("evicted {want}");
        let hold = a.take(&name, want).await?;
        let evicted = stage.waiter(&b, &name, want).await?;
        let next = stage.waiter(&c, &name, want).await?;
        stage.evict_waiter(&a, &name).await?;
        hold.release().await?;
        let next = stage.turn(next).await?;
        stage.pass(stage.ttl() / 2).await;
        ensure!(!evicted.is_done(), "an evicted waiter got a turn for {name} beside the next holder");
        ensure!(next.state() == State::Held, "an eviction cost the next claim its hold of {name}");
        next.release().await?;
        stage.turn(evicted).await?.release().await?; // it has asked again
    }
    Ok(())
}

async fn an_evicted_holders_write_is_refused(stage: &Stage) -> Outcome {
    let [a, operator] = stage.clients().await?;
    let resource = Resource::new(stage.recorder(), "stock");
    let began = stage.now();
    let hold = a.take("stock", Want::Lock).await?;
    ensure!(resource.write(&hold), "the holder's first write was refused");
    // The evicted holder is not told, so the operator's overlap lasts until the next renewal.
    stage.act(Act::DropSignals(client(0))).await?;
    stage.expect_overlap();
    stage.evict(&operator, "stock").await?;
    let next = operator.take("stock", Want::Lock).await?;
    // On a slow machine its next renewal may have come by now.
    if stage.may_overlap(Mishap::Eviction) && stage.now().since(began) < stage.ttl() / 4 {
        ensure!(hold.state() != State::Lost, "the declared overlap could not be forced");
    }
    ensure!(resource.write(&next), "the new holder's write was refused");
    ensure!(!resource.write(&hold), "the evicted holder's write was accepted");
    let told = async || hold.state() == State::Lost;
    stage.until(stage.ttl() / 2, "an evicted holder knows it after its next renewal", told).await?;
    ensure!(next.state() == State::Held, "an eviction cost the next holder its hold");
    Ok(())
}

async fn a_stopped_clients_late_write_is_refused(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let resource = Resource::new(stage.recorder(), "stock");
    let hold = a.take("stock", Want::Lock).await?;
    let looked = hold.state();
    // Between the check and the write, the client is stopped for far longer than its ttl.
    stage.expect_overlap();
    stage.act(Act::Sleep(stage.ttl() * 4)).await?;
    let next = stage.drive(b.take("stock", Want::Lock)).await?;
    ensure!(resource.write(&next), "the new holder's write was refused");
    ensure!(looked == State::Held && !resource.write(&hold), "the stopped client's write was accepted");
    ensure!(
        hold.state() == State::Lost,
        "a client that was stopped past its ttl still believes that it holds"
    );
    Ok(())
}

/// A waiter's requests arrive, but it hears nothing. It is granted, its lifetime ends, and the next waiter gets its
/// turn. Then all signals arrive at once, while it has already asked again.
async fn a_grant_from_before_a_stall_is_not_believed_after_it(stage: &Stage) -> Outcome {
    let patient = stage.options().command_deadline(stage.ttl() * 10);
    let stalled = stage.client_with(0, patient).await?;
    let [_, holder, next] = stage.clients().await?;
    stalled.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("stalled {want}");
        let first = holder.take(&name, want).await?;
        stage.act(Act::HoldReplies(client(0))).await?;
        let asking = Waiter::spawn(&stalled, &name, want);
        stage.until_waiting(&name, 1).await?;
        first.release().await?;
        let behind = Waiter::spawn(&next, &name, want);
        let second = stage.turn_within(stage.ttl() * 2, behind).await?;
        stage.pass(stage.ttl() / 5).await; // it asks again, behind the current holder
        stage.act(Act::Heal).await?;
        stage.pass(stage.ttl() / 4).await;
        ensure!(second.state() == State::Lost || !asking.is_done(), "two clients hold {name}");
        second.release().await?;
        stage.turn_within(stage.ttl() * 2, asking).await?.release().await?;
        stage.until_empty(&name).await?;
    }
    Ok(())
}
