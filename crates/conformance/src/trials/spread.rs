//! Point 13 once more. Names lie on several servers, and move from one to another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidelock::{Error, State};

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Act, Client, Resource, Stage, Want};

trials! {
    names_that_move_stay_locked: points [13, 1, 2, 8], lessons [], needs [Spread];
    a_crowd_goes_on_while_its_names_move: points [13, 1, 2], lessons [], needs [Spread];
}

async fn names_that_move_stay_locked(stage: &Stage) -> Outcome {
    let ttl = stage.ttl() * 3;
    let options = || stage.options().ttl(ttl);
    let a = stage.client_with(0, options()).await?;
    let b = stage.client_with(1, options()).await?;
    let c = stage.client_with(2, options()).await?;
    let mut lines = Vec::new();
    for number in 0..6 {
        let name = format!("moving {number}");
        let hold = a.take(&name, Want::Lock).await?;
        let first = stage.waiter(&b, &name, Want::Lock).await?;
        let second = stage.waiter(&c, &name, Want::Lock).await?;
        lines.push((name, hold, first, second));
    }
    for (name, ..) in &lines {
        stage.act(Act::MoveName(name.clone())).await?;
    }
    for (name, hold, first, second) in lines {
        ensure!(hold.state() != State::Lost, "the hold of {name:?} was lost when it moved");
        ensure!(!first.is_done() && !second.is_done(), "{name:?} was granted while it was held");
        let before = hold.token();
        hold.release().await?;
        let next = stage.turn_within(ttl / 3, first).await?;
        ensure!(next.token() > before, "token {} after {before}", next.token());
        let before = next.token();
        next.release().await?;
        let next = stage.turn_within(ttl / 3, second).await?;
        ensure!(next.token() > before, "token {} after {before}", next.token());
        next.release().await?;
    }
    Ok(())
}

async fn a_crowd_goes_on_while_its_names_move(stage: &Stage) -> Outcome {
    let mut crowds = Vec::new();
    for want in Want::ALONE {
        let name = format!("moving {want}");
        let resource = Resource::new(stage.recorder(), &name);
        crowds.push(Arc::new(Crowd { name, want, resource, is_over: AtomicBool::new(false) }));
    }
    let mut tasks = Vec::new();
    for number in 0..3 {
        let client = stage.client_with(number, stage.options().ttl(stage.ttl() * 3)).await?;
        tasks.extend(crowds.iter().map(|crowd| tokio::spawn(crowd.clone().go_on(client.clone()))));
    }
    for crowd in crowds.iter().cycle().take(crowds.len() * 2) {
        stage.act(Act::MoveName(crowd.name.clone())).await?;
    }
    crowds.iter().for_each(|crowd| crowd.is_over.store(true, Ordering::Relaxed));
    let mut counted = 0;
    for task in tasks {
        counted += stage.drive(task).await??;
    }
    let seen: u64 = crowds.iter().map(|crowd| crowd.resource.counted()).sum();
    ensure!(seen == counted, "{counted} holders counted one more each, and {seen} is left");
    Ok(())
}

/// Those who want a name that moves.
struct Crowd {
    name: String,
    want: Want,
    resource: Resource,
    is_over: AtomicBool,
}

impl Crowd {
    /// Takes it, counts, and gives it back, until it is over and once more: so often. What can be tried again is: a
    /// name on its way is refused to everyone.
    async fn go_on(self: Arc<Self>, client: Client) -> Outcome<u64> {
        let mut counted = 0;
        loop {
            let is_last = self.is_over.load(Ordering::Relaxed);
            let hold = loop {
                match client.take(&self.name, self.want).await {
                    Err(error) if error.can_retry() => {}
                    other => break other?,
                }
            };
            ensure!(
                self.resource.write(&hold),
                "the fence of {:?} refused a holder in good standing",
                self.name
            );
            self.resource.count(2).await;
            counted += 1;
            let released = hold.release().await;
            ensure!(
                released.as_ref().map_or_else(Error::can_retry, |()| true),
                "a release was told as {released:?}"
            );
            if is_last {
                return Ok(counted);
            }
        }
    }
}
