//! Point 3, inside a client. Tasks of one client that want the same mutex or read-write lock stand behind one claim, and the
//! hold is passed on among them: first come, first served, and for no longer than `linger`. Nothing else changes.

use std::time::Duration;

use tidelock_core::{ErrorKind, Options, State};
use tokio::task::JoinHandle;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Hold, Stage, Waiter, Want};

trials! {
    crowds_that_pass_holds_on_keep_their_order: points [3, 1, 2], lessons [], needs [];
    crowds_that_pass_nothing_on_keep_the_order_of_all: points [3, 1, 2], lessons [], needs [];
    a_task_elsewhere_gets_in_past_a_crowd_that_keeps_coming: points [3], lessons [], needs [];
    a_writer_elsewhere_gets_in_past_readers_that_keep_coming: points [3], lessons [12], needs [];
    a_lost_claim_is_lost_to_all_who_share_it_and_the_others_stand_anew: points [4, 3], lessons [], needs [EndSession];
    who_tries_is_answered_by_what_its_own_client_holds: points [1, 3], lessons [], needs [];
    who_tries_passes_no_task_of_its_client_that_waits: points [3], lessons [], needs [];
    who_wants_another_kind_than_its_client_holds_is_told: points [11], lessons [], needs [];
    patience_that_ends_in_a_local_line_costs_no_other_its_place: points [6, 3], lessons [], needs [];
    a_thousand_tasks_of_a_client_are_one_claim: points [12, 3, 6], lessons [19], needs [];
}

const LINGER: Duration = Duration::from_millis(10);

/// For how long the tasks of a crowd hold: not at all, for a part of what they may linger, and for longer.
const SECTIONS: [Duration; 3] = [Duration::ZERO, Duration::from_millis(3), Duration::from_millis(20)];

/// The options of clients that pass holds on, whatever the others of this run do.
fn lingering(stage: &Stage) -> Options {
    stage.options().linger(LINGER)
}

async fn crowds_that_pass_holds_on_keep_their_order(stage: &Stage) -> Outcome {
    keep_their_order(stage, lingering(stage)).await
}

async fn crowds_that_pass_nothing_on_keep_the_order_of_all(stage: &Stage) -> Outcome {
    keep_their_order(stage, stage.strict()).await
}

/// Tasks of three clients come one after the other, and each comes again after its first hold. The history's checks know
/// in which order they must be served.
async fn keep_their_order(stage: &Stage, options: Options) -> Outcome {
    let clients = stage.clients_with::<3>(options).await?;
    for (section, wants) in SECTIONS
        .into_iter()
        .flat_map(|section| [(section, [Want::Lock; 3]), (section, [Want::Read, Want::Read, Want::Write])])
    {
        let name = format!("crowd to {} for {section:?}", wants[2]);
        let first = clients[0].take(&name, wants[2]).await?;
        let mut tasks = Vec::new();
        for number in 0..stage.many(24, 200) {
            // Each client has all wants, in another order.
            let (client, want) = (&clients[number % 3], wants[(number + number / 3) % 3]);
            let waiter = stage.waiter(client, &name, want).await?;
            tasks.push(comes_twice(stage, waiter, client, want, &name, section));
        }
        first.release().await?;
        for task in tasks {
            stage.drive(task).await??;
        }
        stage.until_empty(&name).await?;
    }
    Ok(())
}

fn comes_twice(
    stage: &Stage,
    waiter: Waiter,
    client: &Client,
    want: Want,
    name: &str,
    section: Duration,
) -> JoinHandle<Outcome> {
    let (time, client, name) = (stage.time().clone(), client.clone(), name.to_owned());
    tokio::spawn(async move {
        let hold = waiter.hold().await?;
        time.pass(section).await;
        hold.release().await?;
        let hold = client.take(&name, want).await?;
        time.pass(section).await;
        drop(hold);
        Ok(())
    })
}

/// Takes a name again and again, until it is aborted.
fn endless(stage: &Stage, client: &Client, name: &str, want: Want) -> JoinHandle<Outcome> {
    let (time, client, name) = (stage.time().clone(), client.clone(), name.to_owned());
    tokio::spawn(async move {
        loop {
            let hold = client.take(&name, want).await?;
            time.pass(LINGER / 10).await;
            hold.release().await?;
        }
    })
}

/// Ends these tasks, and waits until they have ended.
async fn end(tasks: Vec<JoinHandle<Outcome>>) -> Outcome {
    tasks.iter().for_each(JoinHandle::abort);
    for task in tasks {
        if let Ok(ended) = task.await {
            ended?; // it should have gone on
        }
    }
    Ok(())
}

async fn a_task_elsewhere_gets_in_past_a_crowd_that_keeps_coming(stage: &Stage) -> Outcome {
    let [a, b, c, d] = stage.clients_with(lingering(stage)).await?;
    let first = a.take("hot", Want::Lock).await?;
    let crowd =
        [&a, &b, &d].into_iter().cycle().take(18).map(|client| endless(stage, client, "hot", Want::Lock));
    let crowd = crowd.collect();
    first.release().await?;
    for _ in 0..5 {
        // The history's checks know how many turns the others may have meanwhile.
        let waiting = stage.waiter_among_others(&c, "hot", Want::Lock).await?;
        stage.turn(waiting).await?.release().await?;
    }
    end(crowd).await?;
    stage.until_empty("hot").await
}

async fn a_writer_elsewhere_gets_in_past_readers_that_keep_coming(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients_with(lingering(stage)).await?;
    let readers = (0..8).map(|_| endless(stage, &a, "table", Want::Read)).collect();
    for _ in 0..5 {
        let waiting = stage.waiter_among_others(&b, "table", Want::Write).await?;
        stage.turn(waiting).await?.release().await?;
    }
    end(readers).await?;
    stage.until_empty("table").await
}

async fn a_lost_claim_is_lost_to_all_who_share_it_and_the_others_stand_anew(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients_with(lingering(stage)).await?;
    let mut held = vec![a.take("mutex", Want::Lock).await?];
    for _ in 0..3 {
        held.push(a.take("table", Want::Read).await?);
    }
    let elsewhere = stage.waiter(&b, "mutex", Want::Lock).await?;
    let behind = stage.waiters(std::slice::from_ref(&a), "mutex", Want::Lock, 3).await?;
    let writers = stage.waiters(std::slice::from_ref(&a), "table", Want::Write, 2).await?;
    let told: Vec<_> = held.iter().map(|hold| tokio::spawn(hold.guard().lost())).collect();
    stage.act(Act::EndSession(client(0))).await?;
    let are_lost = async || held.iter().all(|hold| hold.state() == State::Lost);
    stage.until(stage.ttl() / 2, "every guard of a lost claim is lost", are_lost).await?;
    let are_told = async || told.iter().all(JoinHandle::is_finished);
    stage.until(Duration::from_millis(200), "the future of each loss is ready", are_told).await?;
    stage.turn(elsewhere).await?.release().await?;
    // While the lost ones still have their guards; in an order that is not known.
    let all = behind.into_iter().chain(writers);
    let all = all.map(|waiter| tokio::spawn(async move { waiter.hold().await?.release().await }));
    for served in all.collect::<Vec<_>>() {
        stage.drive(served).await??;
    }
    drop(held);
    stage.until_empty("mutex").await?;
    stage.until_empty("table").await
}

async fn who_tries_is_answered_by_what_its_own_client_holds(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients_with(lingering(stage)).await?;
    for want in [Want::Lock, Want::Write] {
        let name = format!("held to {want}");
        let hold = a.take(&name, want).await?;
        for other in [&a, &b] {
            ensure!(other.try_take(&name, want).await?.is_none(), "{name} was granted twice");
        }
        hold.release().await?;
        let again = a.try_take(&name, want).await?;
        ensure!(again.is_some(), "{name} is free, and was refused to the client that had it");
        ensure!(a.try_take(&name, want).await?.is_none(), "{name} was granted twice");
    }
    let reading = a.take("table", Want::Read).await?;
    let beside = a.try_take("table", Want::Read).await?;
    ensure!(beside.is_some(), "a reader was refused beside another one of its client");
    ensure!(a.try_take("table", Want::Write).await?.is_none(), "a writer was let in among readers");
    reading.release().await?;
    ensure!(a.try_take("table", Want::Write).await?.is_none(), "a writer was let in beside a reader");
    drop(beside);
    stage.until_empty("table").await
}

/// The turn of its client is over, and the next task is about to stand in the store's line.
async fn who_tries_passes_no_task_of_its_client_that_waits(stage: &Stage) -> Outcome {
    let [a] = stage.clients_with(lingering(stage)).await?;
    for want in [Want::Lock, Want::Write] {
        for round in 0..10 {
            let name = format!("turn {round} to {want}");
            let hold = a.take(&name, want).await?;
            let waiting = stage.waiter(&a, &name, want).await?;
            stage.pass(LINGER * 2).await;
            drop(hold);
            let tried = a.try_take(&name, want).await?;
            ensure!(tried.is_none(), "who tried {name} passed a task of its client that waited");
            stage.turn(waiting).await?.release().await?;
        }
    }
    Ok(())
}

async fn patience_that_ends_in_a_local_line_costs_no_other_its_place(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients_with(lingering(stage)).await?;
    let patience = stage.ttl() / 4; // the others must be there before it ends
    for want in [Want::Lock, Want::Write] {
        let name = format!("busy {want}");
        let hold = b.take(&name, want).await?;
        let impatient = |client: &Client| {
            let (client, name) = (client.clone(), name.clone());
            tokio::spawn(async move { client.take_within(&name, want, patience).await })
        };
        // The first has the claim for all of them, and the last is in nobody's way.
        let first = impatient(&a);
        stage.until_waiting(&name, 1).await?;
        let next = stage.waiter(&a, &name, want).await?;
        let elsewhere = stage.waiter(&c, &name, want).await?;
        let last = impatient(&a);
        for gives_up in [first, last] {
            ensure!(stage.drive(gives_up).await??.is_none(), "{name} was granted twice");
        }
        stage.until_waiting(&name, 2).await?;
        hold.release().await?;
        let next = stage.turn(next).await?;
        ensure!(!elsewhere.is_done(), "{name} was granted twice");
        // So does patience behind a hold of the same client.
        let waited = stage.drive(a.take_within(&name, want, patience)).await?;
        ensure!(waited.is_none(), "{name} was granted twice");
        next.release().await?;
        stage.turn(elsewhere).await?.release().await?;
        stage.until_empty(&name).await?;
    }
    Ok(())
}

/// It must not stand in a local line of the other kind: that would pass it a hold that is not of its kind.
async fn who_wants_another_kind_than_its_client_holds_is_told(stage: &Stage) -> Outcome {
    let [a] = stage.clients_with(lingering(stage)).await?;
    for (held, other) in [(Want::Lock, Want::Write), (Want::Lock, Want::Read), (Want::Write, Want::Lock)] {
        let name = format!("{other} of {held}");
        let hold = a.take(&name, held).await?;
        for patience in [stage.ttl() / 20, stage.ttl()] {
            let asked = stage.drive(a.take_within(&name, other, patience)).await;
            let kind = asked.map(|hold| hold.is_some()).map_err(|error| error.kind());
            ensure!(
                kind == Err(ErrorKind::KindMismatch),
                "{other} of a name that is held to {held} was {kind:?}"
            );
        }
        hold.release().await?;
    }
    Ok(())
}

async fn a_thousand_tasks_of_a_client_are_one_claim(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients_with(lingering(stage)).await?;
    for want in [Want::Lock, Want::Write] {
        let name = format!("crowded {want}");
        let hold = b.take(&name, want).await?;
        let mut crowd =
            stage.waiters(std::slice::from_ref(&a), &name, want, stage.many(1_000, 20_000)).await?;
        let claims = stage.watcher().line(&name).await?.claims;
        ensure!(claims.len() == 2, "a crowd of one client has {} claims in line", claims.len() - 1);
        ensure!(
            claims[1].label == a.label() && claims[1].behind == 0,
            "others are told who waits: {}",
            claims[1]
        );
        let own = a.line(&name).await?.claims;
        let behind = crowd.len() - 1;
        ensure!(own[1].behind == behind, "{behind} wait behind a claim that shows {}", own[1]);
        // Half of them give up, also the one whose claim it is.
        crowd.truncate(crowd.len() / 2);
        drop(crowd.remove(0));
        stage.until_waiting(&name, crowd.len()).await?;
        ensure!(
            stage.watcher().waiters(&name).await == 1,
            "who gave up has left a claim, or taken the others'"
        );
        hold.release().await?;
        let served = crowd.into_iter().map(|waiter| tokio::spawn(give_back(waiter)));
        for served in served.collect::<Vec<_>>() {
            stage.drive(served).await??;
        }
        stage.until_empty(&name).await?;
    }
    Ok(())
}

async fn give_back(waiter: Waiter) -> tidelock_core::Result<()> {
    let hold: Hold = waiter.hold().await?;
    hold.release().await
}
