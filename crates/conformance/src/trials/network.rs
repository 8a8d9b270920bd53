//! Faults of a client's network: connections end with or without notice, and stall or lag in either direction. The
//! trials touch most points of the contract, and every point must hold.

use std::task::{Context, Waker};
use std::time::Duration;

use tidelock_core::{Error, Options, State};
use tokio::task::JoinSet;

use crate::failure::{Failure, Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Hold, Stage, Waiter, Want, Way, Whom};

trials! {
    a_connection_that_ends_while_acquiring_strands_no_claim: points [6, 13], lessons [5, 6], needs [Cut, Stall];
    a_connection_that_ends_while_holding_costs_no_hold: points [4, 13], lessons [2], needs [Cut];
    a_connection_that_ends_while_waiting_costs_no_place: points [3, 13], lessons [8], needs [Cut];
    thousands_of_waited_names_survive_a_lost_connection: points [3, 8, 13], lessons [36], needs [Cut, Crowd];
    a_connection_that_ends_while_releasing_gives_back: points [7, 13], lessons [7], needs [Cut, Stall];
    a_stalled_network_is_told_in_time: points [4, 1], lessons [1, 3], needs [Stall];
    a_stalled_network_delays_no_other: points [9], lessons [3], needs [Stall];
    a_slow_network_only_slows: points [4, 3], lessons [1], needs [Stall];
    an_acquire_dropped_on_a_stalled_network_leaves_nothing: points [6, 7], lessons [5], needs [Stall];
    a_join_that_arrives_by_an_old_connection_does_not_come_alive: points [7, 6], lessons [5, 17], needs [Stall];
    waiters_look_again_when_they_can_be_told_again: points [8], lessons [8], needs [CutPush];
    waiters_get_on_while_they_cannot_be_told: points [8], lessons [8], needs [CutPush];
}

/// All ways in which connections end. Each is done to a client of its own.
fn endings() -> [fn(Whom) -> Act; 3] {
    [Act::Cut, Act::Reset, Act::HalfOpen]
}

/// Options under which an unanswered call is given up well within a ttl, with some time left for a busy machine.
fn brisk(stage: &Stage) -> Options {
    let deadline = stage.ttl() / 5;
    let options =
        stage.options().ttl(brisk_ttl(stage)).command_deadline(deadline).connect_deadline(stage.ttl() * 2);
    options.back_off(stage.ttl() / 100, stage.ttl() / 20)
}

fn brisk_ttl(stage: &Stage) -> Duration {
    stage.ttl() * 3 / 2
}

/// A client for each ending.
async fn brisk_clients(stage: &Stage) -> Outcome<Vec<Client>> {
    let mut clients = Vec::new();
    for number in 0..endings().len() {
        clients.push(stage.client_with(number, brisk(stage)).await?);
    }
    Ok(clients)
}

/// Makes sure that a client has a connection to the server that has this name. A fault of the network then hits that
/// connection, and prevents no new one. A connection that died silently is noticed by the next request.
async fn warm(stage: &Stage, client: &Client, name: &str, want: Want) -> Outcome {
    let answered = async || match client.take(name, want).await {
        Ok(hold) => hold.release().await.is_ok(),
        Err(_) => false,
    };
    stage.until(stage.ttl(), "a client is answered", answered).await
}

/// Ends every client's connections, each in its own way, and lets new ones through.
async fn end_connections(stage: &Stage) -> Outcome {
    for (number, ending) in endings().into_iter().enumerate() {
        stage.act(ending(client(number))).await?;
    }
    stage.pass(stage.ttl() / 50).await;
    stage.act(Act::Heal).await
}

async fn a_connection_that_ends_while_acquiring_strands_no_claim(stage: &Stage) -> Outcome {
    let clients = brisk_clients(stage).await?;
    let other = stage.client(clients.len()).await?;
    for is_taken in [false, true] {
        let name = |number: usize| format!("asked {number}, taken: {is_taken}");
        let mut holds = Vec::new();
        let mut asked = Err(Failure::new("no request was sent"));
        for _ in 0..TRIES {
            asked = all_ask_unheard(stage, &clients, &name, is_taken.then_some(&other), &mut holds).await;
            if asked.is_ok() {
                break;
            }
            stage.act(Act::Heal).await?;
            holds.clear();
        }
        let asked = asked?;
        end_connections(stage).await?;
        drop(holds);
        for (number, waiter) in asked.into_iter().enumerate() {
            let ended = async || waiter.is_done();
            stage.until(stage.ttl() * 2, "an acquire ends after its connection", ended).await?;
            match waiter.hold().await {
                Ok(hold) => hold.release().await?,
                Err(error) => {
                    ensure!(error.can_retry(), "a connection that ended was reported as {error:?}");
                }
            }
            stage.until_empty(&name(number)).await?;
        }
    }
    Ok(())
}

/// How often to try to have requests arrive whose replies do not. A store that cleans up may remove a free line just
/// before a request, as ZooKeeper does with empty nodes. The claim then needs a second request, which is not sent
/// before the first is answered.
const TRIES: usize = 3;

/// Each client's claim stands in line, behind one of `holder` if it is given, and no client hears of it.
async fn all_ask_unheard(
    stage: &Stage,
    clients: &[Client],
    name: &impl Fn(usize) -> String,
    holder: Option<&Client>,
    holds: &mut Vec<Hold>,
) -> Outcome<Vec<Waiter>> {
    let mut asked = Vec::new();
    for (number, one) in clients.iter().enumerate() {
        let name = name(number);
        warm(stage, one, &name, Want::Lock).await?;
        if let Some(holder) = holder {
            holds.push(holder.take(&name, Want::Lock).await?);
        }
        stage.act(Act::Stall(client(number), Way::Back)).await?;
        asked.push(Waiter::spawn(one, &name, Want::Lock));
        let stands = async || {
            let line = stage.watcher().line(&name).await;
            line.is_ok_and(|line| line.claims.len() == 1 + usize::from(holder.is_some()))
        };
        stage.until(stage.ttl() / 5, "the claim stands in line", stands).await?;
    }
    Ok(asked)
}

async fn a_connection_that_ends_while_holding_costs_no_hold(stage: &Stage) -> Outcome {
    let clients = brisk_clients(stage).await?;
    let other = stage.client(clients.len()).await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for (number, one) in clients.iter().enumerate() {
        let name = format!("held {number}");
        holds.push(one.take(&name, Want::Lock).await?);
        waiting.push(stage.waiter(&other, &name, Want::Lock).await?);
    }
    end_connections(stage).await?;
    for _ in 0..40 {
        stage.pass(brisk_ttl(stage) / 20).await;
        for hold in &holds {
            ensure!(hold.state() != State::Lost, "{hold:?}: a connection ended, and the hold with it");
        }
    }
    for (hold, waiter) in holds.into_iter().zip(waiting) {
        ensure!(hold.state() == State::Held, "{hold:?}: the hold was not renewed over a new connection");
        ensure!(!waiter.is_done(), "a waiter got in while the lock was held");
        hold.release().await?;
        stage.turn(waiter).await?;
    }
    Ok(())
}

async fn a_connection_that_ends_while_waiting_costs_no_place(stage: &Stage) -> Outcome {
    let clients = brisk_clients(stage).await?;
    let [other, next] = [stage.client(clients.len()).await?, stage.client(clients.len() + 1).await?];
    let mut lines = Vec::new();
    for (number, one) in clients.iter().enumerate() {
        let name = format!("line {number}");
        let hold = other.take(&name, Want::Lock).await?;
        let first = stage.waiter(one, &name, Want::Lock).await?;
        // Other clients see it in line before it hears of that itself. Until then it only tries, and this is answered
        // later.
        ensure!(one.try_take(&name, Want::Lock).await?.is_none(), "a lock that is held was granted");
        let second = stage.waiter(&next, &name, Want::Lock).await?;
        lines.push((name, hold, first, second));
    }
    end_connections(stage).await?;
    stage.pass(brisk_ttl(stage) * 3 / 2).await;
    for (number, (name, hold, first, second)) in lines.into_iter().enumerate() {
        let line = stage.watcher().line(&name).await?;
        let waiters: Vec<&str> = line.waiters().map(|claim| claim.label.as_str()).collect();
        let (ended, next) = (clients[number].label(), next.label());
        ensure!(
            waiters == [ended, next],
            "the connection of {ended} has ended, and the waiters are {waiters:?}"
        );
        hold.release().await?;
        stage.turn(first).await?.release().await?;
        stage.turn(second).await?.release().await?;
    }
    Ok(())
}

/// The names are long, so that a client's claims on them do not fit into one request after a reconnect.
async fn thousands_of_waited_names_survive_a_lost_connection(stage: &Stage) -> Outcome {
    // So many are asked for and let go at once: how fast a server hands on thousands of names is not asked here.
    const TOGETHER: usize = 250;
    let ttl = stage.ttl() * 4;
    let patient = stage.options().ttl(ttl).command_deadline(ttl);
    let [owner, waiter] =
        [stage.client_with(0, patient.clone()).await?, stage.client_with(1, patient).await?];
    let kept = waiter.take("kept", Want::Lock).await?;
    let count = stage.many(1_000, 5_000);
    let names: Vec<String> = (0..count).map(|number| format!("{number:0>200}")).collect();
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for names in names.chunks(TOGETHER) {
        let taking: Vec<_> = names.iter().map(|name| Waiter::spawn(&owner, name, Want::Lock)).collect();
        for one in taking {
            holds.push(stage.turn_within(ttl, one).await?);
        }
        waiting.extend(names.iter().map(|name| Waiter::spawn(&waiter, name, Want::Lock)));
        for name in names {
            stage.until_waiting(name, 1).await?;
        }
    }
    stage.act(Act::Cut(client(1))).await?;
    stage.pass(stage.ttl() / 50).await;
    stage.act(Act::Heal).await?;
    stage.pass(ttl).await; // by then, a hold that could not be renewed is lost
    ensure!(kept.state() != State::Lost, "a hold was lost while {count} other names are waited for");
    ensure!(waiting.iter().all(|waiter| !waiter.is_done()), "a waiter was granted a name that is held");
    let mut waiting = waiting.into_iter();
    while !holds.is_empty() {
        let together = TOGETHER.min(holds.len());
        holds.drain(..together).for_each(drop);
        let mut releasing = JoinSet::new();
        for waiter in waiting.by_ref().take(together) {
            releasing.spawn(stage.turn_within(ttl, waiter).await?.release());
        }
        for released in releasing.join_all().await {
            released?;
        }
    }
    Ok(kept.release().await?)
}

async fn a_connection_that_ends_while_releasing_gives_back(stage: &Stage) -> Outcome {
    let clients = brisk_clients(stage).await?;
    for way in [Way::There, Way::Back] {
        let mut releasing = Vec::new();
        for (number, one) in clients.iter().enumerate() {
            let (released, dropped) = (format!("released {number} {way}"), format!("dropped {number} {way}"));
            warm(stage, one, &released, Want::Lock).await?;
            warm(stage, one, &dropped, Want::Lock).await?;
            let hold = one.take(&released, Want::Lock).await?;
            let other = one.take(&dropped, Want::Lock).await?;
            stage.act(Act::Stall(client(number), way)).await?;
            releasing.push((tokio::spawn(hold.release()), released, dropped));
            drop(other);
        }
        stage.pass(stage.ttl() / 50).await;
        end_connections(stage).await?;
        for (release, released, dropped) in releasing {
            stage.until_empty(&released).await?;
            stage.until_empty(&dropped).await?;
            let told = stage.drive(release).await?;
            let fits = told.as_ref().map_or_else(Error::can_retry, |()| true);
            ensure!(fits, "a release whose connection ended was reported as {told:?}");
        }
    }
    Ok(())
}

async fn a_stalled_network_is_told_in_time(stage: &Stage) -> Outcome {
    let [there, back, other] = stage.clients().await?;
    let (mut holds, mut waiting) = (Vec::new(), Vec::new());
    for (number, (one, way)) in [(&there, Way::There), (&back, Way::Back)].into_iter().enumerate() {
        let name = format!("stalled {way}");
        holds.push(one.take(&name, Want::Lock).await?);
        waiting.push(stage.waiter(&other, &name, Want::Lock).await?);
        stage.act(Act::Stall(client(number), way)).await?;
    }
    let stalled = stage.now();
    loop {
        let passed = stage.now().since(stalled); // before the look: the machine may stand still between the two
        if holds.iter().all(|hold| hold.state() == State::Lost) {
            break;
        }
        ensure!(passed < stage.ttl(), "{passed:?} after the network stalled, the guard is not lost");
        stage.pass(stage.ttl() / 100).await;
    }
    let bound = stage.ttl() * 2; // if replies are held back, a claim that is renewed lives on
    let mut next = Vec::new();
    for waiter in waiting {
        next.push(stage.turn_since(stalled, bound, waiter).await?);
    }
    stage.act(Act::Heal).await?;
    drop(holds); // late: this must remove no other claim
    stage.pass(stage.ttl() / 2).await;
    ensure!(next.iter().all(|hold| hold.state() == State::Held), "a late leave cost a successor its hold");
    drop(next);
    for (one, way) in [(&there, Way::There), (&back, Way::Back)] {
        let again = stage.drive(one.take_within(&format!("stalled {way}"), Want::Lock, stage.ttl())).await?;
        ensure!(again.is_some(), "a client whose network was stalled {way} cannot take locks any more");
    }
    Ok(())
}

async fn a_stalled_network_delays_no_other(stage: &Stage) -> Outcome {
    let [stalled, other] = stage.clients().await?;
    let _kept = stalled.take("kept", Want::Lock).await?;
    for way in [Way::There, Way::Back] {
        stage.act(Act::Stall(client(0), way)).await?;
        for round in 0..20 {
            let asked = stage.now();
            let hold = stage.drive(other.take(&format!("other {}", round % 4), Want::Lock)).await?;
            stage.drive(hold.release()).await?;
            let took = stage.now().since(asked);
            let is_in_time = stage.is_in_time(asked, stage.ttl() / 5);
            ensure!(is_in_time, "a network that stalls {way} delayed another client by {took:?}");
        }
        stage.act(Act::Heal).await?;
    }
    Ok(())
}

async fn a_slow_network_only_slows(stage: &Stage) -> Outcome {
    let [slow, other] = stage.clients().await?;
    let (lag, both) = (stage.ttl() / 20, stage.ttl() / 10);
    warm(stage, &slow, "slow", Want::Lock).await?;
    for way in [Way::There, Way::Back] {
        stage.act(Act::Lag(client(0), way, lag)).await?;
    }
    let asked = stage.now();
    let hold = slow.take("slow", Want::Lock).await?;
    let (took, remaining) = (stage.now().since(asked), hold.guard().remaining());
    ensure!(took >= both, "a network that takes {both:?} there and back answered after only {took:?}");
    ensure!(
        remaining + took <= stage.ttl(),
        "{took:?} after the request, the guard has {remaining:?} left, with a ttl of {:?}",
        stage.ttl()
    );
    let waiting = stage.waiter(&other, "slow", Want::Lock).await?;
    for _ in 0..80 {
        stage.pass(stage.ttl() / 40).await;
        let remaining = hold.guard().remaining();
        ensure!(hold.state() == State::Held, "a slow network put a hold in jeopardy");
        ensure!(
            remaining + both <= stage.ttl(),
            "after the reply to a renewal that took {both:?}, the guard has {remaining:?} left, with a ttl of {:?}",
            stage.ttl()
        );
    }
    hold.release().await?;
    let next = stage.turn(waiting).await?;
    let waiting = Waiter::spawn(&slow, "slow", Want::Lock);
    stage.until_waiting("slow", 1).await?;
    next.release().await?;
    stage.turn(waiting).await?.release().await?;
    Ok(())
}

async fn an_acquire_dropped_on_a_stalled_network_leaves_nothing(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    for way in [Way::There, Way::Back] {
        for want in Want::ALONE {
            let name = format!("stalled {way}: {want}");
            warm(stage, &a, &name, want).await?;
            stage.act(Act::Stall(client(0), way)).await?;
            let mut asked = Box::pin(a.take(&name, want));
            for _ in 0..4 {
                let polled = asked.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                ensure!(polled.is_pending(), "an answer came although the network stalls {way}");
                stage.pass(Duration::from_millis(5)).await;
            }
            drop(asked);
            stage.pass(Duration::from_millis(20)).await;
            stage.act(Act::Heal).await?;
            stage.until_empty(&name).await?;
            stage.pass(stage.ttl() / 10).await;
            ensure!(
                b.try_take(&name, want).await?.is_some(),
                "a request for {name:?} that was given up left a claim"
            );
        }
    }
    Ok(())
}

async fn a_join_that_arrives_by_an_old_connection_does_not_come_alive(stage: &Stage) -> Outcome {
    let a = stage.client_with(0, brisk(stage)).await?;
    let b = stage.client(1).await?;
    for want in Want::ALONE {
        let name = format!("stranded {want}");
        warm(stage, &a, &name, want).await?;
        stage.act(Act::Strand(client(0))).await?;
        let told = stage.drive(a.try_take(&name, want)).await.map(|hold| hold.is_some());
        let fits = told.as_ref().map_or_else(Error::can_retry, |is_held| *is_held);
        ensure!(fits, "an acquire whose request is still on its way was reported as {told:?}");
        // A grant that may have come of it is given back, over a new connection.
        stage.pass(stage.ttl() / 2).await;
        stage.act(Act::Heal).await?;
        stage.pass(stage.ttl() / 10).await;
        let line = stage.watcher().line(&name).await?;
        ensure!(line.claims.is_empty(), "a request of an old connection left a claim: {:?}", line.claims);
        ensure!(b.try_take(&name, want).await?.is_some(), "{name} is not free for the next claim");
    }
    Ok(())
}

/// A holder and a waiter with leases so long that only a signal, or a look, helps the waiter soon.
async fn long_leases(stage: &Stage) -> Outcome<[Client; 2]> {
    let options = stage.options().ttl(stage.ttl() * 20);
    Ok([stage.client_with(0, options.clone()).await?, stage.client_with(1, options).await?])
}

async fn waiters_look_again_when_they_can_be_told_again(stage: &Stage) -> Outcome {
    let [a, b] = long_leases(stage).await?;
    for want in Want::ALONE {
        let name = format!("untold {want}");
        let hold = a.take(&name, want).await?;
        let waiting = stage.waiter(&b, &name, want).await?;
        stage.pass(stage.ttl() / 10).await; // it knows that it waits, and asks no more
        stage.act(Act::CutPush(client(1))).await?;
        stage.pass(stage.ttl() / 20).await;
        hold.release().await?; // every signal from now on is lost
        stage.pass(stage.ttl() / 10).await;
        stage.act(Act::Heal).await?;
        stage.turn_within(stage.ttl() * 2, waiting).await?.release().await?;
    }
    Ok(())
}

async fn waiters_get_on_while_they_cannot_be_told(stage: &Stage) -> Outcome {
    let [a, b, c] = stage.clients().await?;
    let hold = a.take("untold", Want::Lock).await?;
    let first = stage.waiter(&b, "untold", Want::Lock).await?;
    let second = stage.waiter(&c, "untold", Want::Lock).await?;
    stage.act(Act::CutPush(client(1))).await?;
    hold.release().await?;
    // A client that cannot be told for a ttl gets its turn, or makes way and comes again; no claim waits for ever.
    stage.pass(stage.ttl()).await;
    stage.act(Act::Heal).await?;
    let one = async || first.is_done() || second.is_done();
    stage.until(stage.ttl() * 2, "one of the waiters gets its turn", one).await?;
    let (now, later) = if first.is_done() { (first, second) } else { (second, first) };
    now.hold().await?.release().await?;
    stage.turn_within(stage.ttl() * 2, later).await?.release().await?;
    Ok(())
}
