//! Point 13, for servers that form a quorum: they continue without one of them, and a server cut off from the others
//! misleads no client.

use std::time::Duration;

use tidelock_core::State;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Client, Hold, Resource, Seat, Stage, Waiter, Want, Way};

trials! {
    a_killed_follower_costs_no_lock: points [13, 5], lessons [], needs [Agree];
    a_killed_leader_costs_no_lock: points [13, 5], lessons [], needs [Agree];
    a_leader_cut_off_from_the_others_misleads_nobody: points [13, 1, 4], lessons [1], needs [Agree];
    a_follower_cut_off_from_the_others_misleads_nobody: points [13, 1, 4], lessons [1], needs [Agree];
    a_client_cut_off_from_all_servers_is_told_in_time: points [13, 1, 4, 5], lessons [1], needs [Agree, Stall];
}

/// How many names are held and waited for.
const NAMES: usize = 100;
/// A ttl longer than an election.
const PATIENT: Duration = Duration::from_secs(15);
/// A ttl longer than an election that begins only after the other servers find out that their leader is gone.
const MORE_PATIENT: Duration = Duration::from_secs(150);
/// How long servers may take to notice that one is missing, and to agree without it.
const ELECTION: Duration = Duration::from_secs(75);
/// How long it may take to get a lock that is available.
const SOON: Duration = Duration::from_secs(5);

/// Names that one client holds, each with another client waiting for it.
struct Stock {
    holds: Vec<Hold>,
    waiting: Vec<Waiter>,
}

impl Stock {
    async fn take(stage: &Stage, holder: &Client, next: &Client) -> Outcome<Self> {
        let (mut holds, mut waiting) = (Vec::new(), Vec::new());
        for number in 0..NAMES {
            let name = format!("name {number}");
            holds.push(stage.drive(holder.take(&name, Want::Lock)).await?);
            waiting.push(stage.waiter(next, &name, Want::Lock).await?);
        }
        Ok(Self { holds, waiting })
    }

    fn all_are(&self, state: State) -> bool {
        self.holds.iter().all(|hold| hold.state() == state)
    }

    /// Gives each name back. Its waiter must get it, under a later token.
    async fn pass_on(self, stage: &Stage) -> Outcome {
        for (hold, waiter) in self.holds.into_iter().zip(self.waiting) {
            let before = hold.token();
            hold.release().await?;
            let next = stage.turn_within(SOON, waiter).await?;
            ensure!(next.token() > before, "token {} was granted after token {before}", next.token());
            next.release().await?;
        }
        Ok(())
    }

    /// Each name is lost to its holder before its waiter gets it: the history is checked for that. Later writes of the
    /// old holder are refused.
    async fn move_on(self, stage: &Stage, within: Duration) -> Outcome {
        let told = async || self.all_are(State::Lost);
        stage.until(stage.ttl(), "the holder knows that all its holds are lost", told).await?;
        let resource = Resource::new(stage.recorder(), "stock");
        for (hold, waiter) in self.holds.iter().zip(self.waiting) {
            let next = stage.turn_within(within, waiter).await?;
            ensure!(
                next.token() > hold.token(),
                "token {} was granted after token {}",
                next.token(),
                hold.token()
            );
            ensure!(resource.write(&next), "the new holder's write was refused");
            ensure!(!resource.write(hold), "the old holder's write was accepted");
            next.release().await?;
        }
        Ok(())
    }
}

async fn a_killed_follower_costs_no_lock(stage: &Stage) -> Outcome {
    costs_no_lock(stage, Seat::Follower).await
}

async fn a_killed_leader_costs_no_lock(stage: &Stage) -> Outcome {
    costs_no_lock(stage, Seat::Leader).await
}

async fn costs_no_lock(stage: &Stage, seat: Seat) -> Outcome {
    let patient = || stage.options().ttl(PATIENT);
    let (a, b) = (stage.client_with(0, patient()).await?, stage.client_with(1, patient()).await?);
    let stock = Stock::take(stage, &a, &b).await?;
    stage.act(Act::KillSeat(seat)).await?;
    let later = stage.now();
    let again =
        async || stage.drive(b.take_within("another", Want::Lock, SOON)).await.is_ok_and(|got| got.is_some());
    stage.until(ELECTION, "the other servers serve without it", again).await?;
    // Since then, the current servers have renewed each guard.
    let renewed = async || stock.all_are(State::Held) && stage.now().since(later) > PATIENT / 3;
    stage.until(PATIENT, "all holds are renewed", renewed).await?;
    ensure!(stock.waiting.iter().all(|waiter| !waiter.is_done()), "a waiter was granted a name that is held");
    stock.pass_on(stage).await
}

async fn a_leader_cut_off_from_the_others_misleads_nobody(stage: &Stage) -> Outcome {
    misleads_nobody(stage, Seat::Leader, Seat::Follower).await
}

async fn a_follower_cut_off_from_the_others_misleads_nobody(stage: &Stage) -> Outcome {
    misleads_nobody(stage, Seat::Follower, Seat::Leader).await
}

/// The holder knows only the server that is cut off; the waiter knows only one of the others.
async fn misleads_nobody(stage: &Stage, cut: Seat, on: Seat) -> Outcome {
    let a = stage.client_of(cut, 0, stage.options()).await?;
    let b = stage.client_of(on, 1, stage.options().ttl(MORE_PATIENT)).await?;
    let stock = Stock::take(stage, &a, &b).await?;
    stage.act(Act::CutOff(cut)).await?;
    stock.move_on(stage, ELECTION).await
}

async fn a_client_cut_off_from_all_servers_is_told_in_time(stage: &Stage) -> Outcome {
    let a = stage.client(0).await?;
    let b = stage.client_with(1, stage.options().ttl(MORE_PATIENT)).await?;
    let stock = Stock::take(stage, &a, &b).await?;
    for way in [Way::There, Way::Back] {
        stage.act(Act::Stall(client(0), way)).await?;
    }
    stock.move_on(stage, stage.ttl() * 2).await
}
