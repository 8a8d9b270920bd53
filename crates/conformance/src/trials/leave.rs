//! Point 7. A leave removes the claim it names and no other, however often and however late it comes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidelock_core::{ErrorKind, State};

use crate::failure::{Failure, Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Stage, Want};

trials! {
    a_repeated_leave_frees_no_successor: points [7], lessons [7], needs [LoseReplies];
    a_release_after_loss_frees_no_successor: points [7], lessons [7], needs [Refuse];
    evicting_twice_frees_no_successor: points [7], lessons [7], needs [];
    a_join_that_arrives_after_its_leave_does_not_come_alive: points [7, 6], lessons [5], needs [HoldBack];
    a_leave_is_repeated_until_the_store_is_back: points [7, 6], lessons [17, 35], needs [Refuse];
    no_lock_is_kept_alive_for_nobody: points [7, 6], lessons [4], needs [];
    many_short_holds_outlive_many_renewals: points [7, 4, 10], lessons [4], needs [];
    closing_gives_everything_back_before_it_returns: points [7, 10], lessons [24], needs [];
    the_last_handle_that_goes_gives_everything_back: points [7, 10], lessons [24], needs [];
}

async fn a_repeated_leave_frees_no_successor(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    for want in Want::ALONE {
        let name = format!("passed on {want}");
        let hold = a.take(&name, want).await?;
        let waiting = stage.waiter(&b, &name, want).await?;
        let behind = stage.waiter(&c, &name, want).await?;
        // The reply to the leave is lost, so the leave is sent again when the next claim already holds.
        stage.act(Act::LoseReplies(client(0), 1)).await?;
        drop(hold);
        let taken = |_| Failure::new(format!("a repeated leave cost the successor its turn on {name}"));
        let next = stage.turn(waiting).await.map_err(taken)?;
        stage.pass(stage.ttl()).await;
        ensure!(next.state() == State::Held, "a repeated leave cost the successor its hold of {name}");
        ensure!(!behind.is_done(), "a repeated leave let another claim in beside the successor on {name}");
        next.release().await?;
        stage.turn(behind).await?.release().await?;
        stage.act(Act::Heal).await?;
    }
    Ok(())
}

async fn a_release_after_loss_frees_no_successor(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("passed on", Want::Lock).await?;
    let waiting = stage.waiter(&b, "passed on", Want::Lock).await?;
    stage.act(Act::Refuse(client(0))).await?;
    let next = stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    stage.act(Act::Heal).await?;
    let late = stage.drive(hold.release()).await;
    ensure!(
        late.is_err_and(|error| error.kind() == ErrorKind::Lost),
        "releasing a lost guard is reported as success"
    );
    stage.pass(stage.ttl() / 2).await;
    ensure!(next.state() == State::Held, "a late release cost the successor its hold");
    ensure!(a.try_take("passed on", Want::Lock).await?.is_none(), "a late release let another claim in");
    next.release().await?;
    Ok(())
}

async fn evicting_twice_frees_no_successor(stage: &Stage) -> Outcome {
    let [a, b, operator] = stage.clients().await?;
    let hold = a.take("stock", Want::Lock).await?;
    let evicted = operator.line("stock").await?.claims[0].id;
    let waiting = stage.waiter(&b, "stock", Want::Lock).await?;
    stage.expect_overlap();
    stage.evict(&operator, "stock").await?;
    let next = stage.turn(waiting).await?;
    ensure!(!operator.locks().evict("stock", evicted).await?, "an evicted claim could be evicted again");
    drop(hold);
    stage.pass(stage.ttl() / 2).await;
    ensure!(next.state() == State::Held, "a second eviction cost the successor its hold");
    for want in Want::ALONE {
        evicting_under_another_name(stage, &[&b, &operator], want).await?;
    }
    next.release().await?;
    Ok(())
}

/// A claim stands in one line, and an operator who names another one takes nothing out of it. "stock" is held meanwhile.
async fn evicting_under_another_name(stage: &Stage, clients: &[&Client; 2], want: Want) -> Outcome {
    let [owner, other] = clients;
    let name = format!("apart {want}");
    let hold = owner.take(&name, want).await?;
    let waiting = stage.waiter(other, &name, want).await?;
    let claims = other.line(&name).await?.claims;
    for by in clients {
        for (claim, wrong) in claims.iter().flat_map(|claim| [(claim.id, "stock"), (claim.id, "nowhere")]) {
            ensure!(!by.locks().evict(wrong, claim).await?, "a claim on {name} was evicted from {wrong}");
        }
    }
    ensure!(!waiting.is_done() && hold.state() == State::Held, "an eviction from another line cost {name}");
    ensure!(
        other.line(&name).await?.claims.len() == 2,
        "an eviction from another line took a claim out of {name}"
    );
    hold.release().await?;
    stage.turn(waiting).await?.release().await?;
    Ok(())
}

async fn a_join_that_arrives_after_its_leave_does_not_come_alive(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    a.take("warm", Want::Lock).await?.release().await?;
    for want in Want::ALONE {
        let name = format!("late {want}");
        stage.act(Act::HoldRequests(client(0))).await?;
        let asked = tokio::spawn({
            let (a, name) = (a.clone(), name.clone());
            async move { a.take(&name, want).await.map(drop) }
        });
        stage.pass(Duration::from_millis(10)).await;
        asked.abort();
        stage.pass(Duration::from_millis(10)).await;
        // The leave is held back too. Everything arrives now, in any order.
        stage.act(Act::Heal).await?;
        stage.until_empty(&name).await?;
        stage.pass(stage.ttl() / 2).await;
        ensure!(b.try_take(&name, want).await?.is_some(), "a join that came too late holds {name}");
    }
    Ok(())
}

async fn a_leave_is_repeated_until_the_store_is_back(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let hold = a.take("stuck", Want::Lock).await?;
    let _neighbour = a.take("neighbour", Want::Lock).await?; // its renewals keep the session alive
    stage.act(Act::Refuse(client(0))).await?;
    drop(hold);
    stage.pass(stage.ttl() / 4).await;
    ensure!(!stage.watcher().is_empty("stuck").await, "a refused leave was carried out");
    stage.act(Act::Heal).await?;
    let free = async || stage.watcher().is_empty("stuck").await;
    stage.until(stage.ttl() / 3, "a refused leave is carried out after the heal", free).await
}

async fn no_lock_is_kept_alive_for_nobody(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let _living = a.take("living", Want::Lock).await?; // the client goes on renewing
    for want in Want::ALONE {
        a.take(&format!("released {want}"), want).await?.release().await?;
        drop(a.take(&format!("dropped {want}"), want).await?);
        let busy = b.take(&format!("cancelled {want}"), want).await?;
        drop(stage.waiter(&a, &format!("cancelled {want}"), want).await?);
        busy.release().await?;
    }
    stage.pass(stage.ttl() * 11 / 10).await;
    for want in Want::ALONE {
        for name in ["released", "dropped", "cancelled"] {
            let name = format!("{name} {want}");
            let taken = b.try_take(&name, want).await?;
            ensure!(
                taken.is_some(),
                "{name} stays alive although it was given up: its client continues to renew it"
            );
        }
    }
    Ok(())
}

/// Short holds by many tasks, until they are told to stop.
#[derive(Default)]
struct ShortHolds {
    taken: AtomicU64,
    is_over: AtomicBool,
}

impl ShortHolds {
    /// One task: takes and gives back.
    async fn take(self: Arc<Self>, client: Client, name: String) -> Outcome {
        while !self.is_over.load(Ordering::Relaxed) {
            let hold = client.take(&name, Want::Lock).await?;
            tokio::time::sleep(Duration::from_millis(1)).await; // so that renewals begin and end meanwhile
            let (state, taken) = (hold.state(), self.taken.fetch_add(1, Ordering::Relaxed));
            ensure!(state == State::Held, "a short hold of {name} is {state:?} after {taken} others");
            match taken % 3 {
                0 => drop(hold),
                _ => hold.release().await?,
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }
}

async fn many_short_holds_outlive_many_renewals(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let kept = a.take("kept", Want::Lock).await?; // so that there is a hold to renew
    let short = Arc::new(ShortHolds::default());
    let shared = (0..4).map(|_| "shared".to_owned());
    let names = shared.chain((0..4).map(|number| format!("own {number}")));
    let tasks: Vec<_> = names.map(|name| tokio::spawn(short.clone().take(a.clone(), name))).collect();
    let has_failed = || tasks.iter().any(tokio::task::JoinHandle::is_finished);
    for _ in 0..stage.many(300, 3_000) {
        // The tasks must keep up with the time, however fast it is turned.
        let before = short.taken.load(Ordering::Relaxed);
        stage.pass(stage.ttl() / 100).await;
        let goes_on = async || short.taken.load(Ordering::Relaxed) > before || has_failed();
        stage.until(stage.ttl(), "the tasks take more short holds", goes_on).await?;
        ensure!(kept.state() == State::Held, "a long hold was lost beside many short ones");
        if has_failed() {
            break; // the reason is reported below
        }
    }
    short.is_over.store(true, Ordering::Relaxed);
    for task in tasks {
        stage.drive(task).await??;
    }
    drop(kept);
    crate::trials::leaks::until_no_names(stage).await
}

async fn closing_gives_everything_back_before_it_returns(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let mut holds = Vec::new();
    for number in 0..20 {
        holds.push(a.take(&format!("held {number}"), Want::Lock).await?);
    }
    let busy = b.take("busy", Want::Lock).await?;
    let waiting = stage.waiter(&a, "busy", Want::Lock).await?;
    stage.drive(a.locks().close()).await?;
    for number in 0..20 {
        let name = format!("held {number}");
        ensure!(
            b.try_take(&name, Want::Lock).await?.is_some(),
            "{name} is still held after its client was closed"
        );
    }
    ensure!(
        holds.iter().all(|hold| hold.state() == State::Lost),
        "a guard is still held after its client was closed"
    );
    let ended = waiting.hold().await;
    ensure!(
        ended.is_err_and(|error| error.kind() == ErrorKind::Closed),
        "a wait continues in a closed client"
    );
    ensure!(b.waiters("busy").await == 0, "a closed client still stands in line");
    let late = a.take("anything", Want::Lock).await;
    ensure!(
        late.is_err_and(|error| error.kind() == ErrorKind::Closed),
        "a closed client can still take locks"
    );
    busy.release().await?;
    Ok(())
}

async fn the_last_handle_that_goes_gives_everything_back(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("kept", Want::Lock).await?;
    let waiting = stage.waiter(&b, "kept", Want::Lock).await?;
    drop(a);
    stage.pass(stage.ttl() * 2).await;
    ensure!(hold.state() == State::Held && !waiting.is_done(), "a guard does not keep its client alive");
    drop(hold);
    stage.turn(waiting).await?;
    Ok(())
}
