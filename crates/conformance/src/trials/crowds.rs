//! Points 9 and 6. A crowd that gives up costs no other client a guard, and is gone within a second.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use tidelock_core::State;

use crate::failure::{Outcome, ensure};
use crate::trial::trials;
use crate::{Client, Hold, Stage, Waiter, Want};

trials! {
    ten_thousand_joins_dropped_at_once_cost_nobody_a_guard: points [9, 6, 4], lessons [5, 3, 31], needs [Count, Crowd];
    ten_thousand_waiters_who_give_up_cost_nobody_a_guard: points [9, 6, 4], lessons [5, 3, 31], needs [Count, Crowd];
}

const CROWD: usize = 10_000;

/// How long a client of this process may be blocked before its guard is lost, at the least: starting and dropping ten
/// thousand calls takes a busy machine most of a second.
const BEARABLE: Duration = Duration::from_secs(6);

/// The maximum cost of a join that gives up, in commands: the join, a look for its outcome, and its leave.
const COMMANDS: u64 = 4;

type Joining = Pin<Box<dyn Future<Output = tidelock_core::Result<Hold>> + Send>>;

/// Ten thousand calls that have started and have no answer.
fn crowd(client: &Client, name: &str) -> Vec<Joining> {
    let mut joining: Vec<Joining> = Vec::with_capacity(CROWD);
    for _ in 0..CROWD {
        let (client, name) = (client.clone(), name.to_owned());
        let mut join: Joining = Box::pin(async move { client.take(&name, Want::Lock).await });
        if join.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            joining.push(join);
        }
    }
    joining
}

/// Drops the crowd, which must be gone within a second. The holder elsewhere must not notice. The line is read only a
/// few times, because it is long. If the machine is so busy that dropping takes long by itself, more than a second is
/// allowed.
async fn gone_and_kept<T>(stage: &Stage, crowd: Vec<T>, name: &str, kept: &Hold) -> Outcome {
    const LOOKS: u32 = 5;
    let began = Instant::now();
    drop(crowd);
    let second = Duration::from_secs(1).max(began.elapsed() * 4);
    let is_gone = async || stage.watcher().line(name).await.is_ok_and(|line| line.claims.len() == 1);
    for _ in 0..LOOKS {
        stage.pass(second / LOOKS).await;
        ensure!(kept.state() != State::Lost, "a crowd that gives up cost another client its guard");
        if is_gone().await {
            break;
        }
    }
    stage.until(Duration::ZERO, "the crowd that gave up is gone", is_gone).await
}

/// The holder elsewhere must not notice later either.
async fn still_kept(stage: &Stage, kept: Hold) -> Outcome {
    stage.pass(stage.ttl().max(BEARABLE)).await;
    ensure!(kept.state() != State::Lost, "a crowd that gave up cost another client its guard");
    Ok(kept.release().await?)
}

async fn ten_thousand_joins_dropped_at_once_cost_nobody_a_guard(stage: &Stage) -> Outcome {
    let a = stage.client_with(0, stage.options().ttl(stage.ttl().max(BEARABLE))).await?;
    let b = stage.client(1).await?;
    let c = stage.client_with(2, stage.options().ttl(stage.ttl().max(BEARABLE))).await?;
    let kept = a.take("kept", Want::Lock).await?;
    let busy = c.take("crowded", Want::Lock).await?;
    b.take("warm", Want::Lock).await?.release().await?;
    // First none of them is sent, then some are, then some are answered.
    for passed in [0, 2, 20] {
        let before = stage.counts().await?;
        let joining = crowd(&b, "crowded");
        stage.pass(Duration::from_millis(passed)).await;
        gone_and_kept(stage, joining, "crowded", &kept).await?;
        let cost = (stage.counts().await? - before).commands;
        let most = COMMANDS * CROWD as u64;
        ensure!(cost <= most, "giving up {CROWD} joins took {cost} commands");
    }
    // The next claim gets its turn.
    busy.release().await?;
    stage.drive(b.take("crowded", Want::Lock)).await?.release().await?;
    still_kept(stage, kept).await
}

async fn ten_thousand_waiters_who_give_up_cost_nobody_a_guard(stage: &Stage) -> Outcome {
    let kept_for = stage.ttl().max(BEARABLE);
    let a = stage.client_with(0, stage.options().ttl(kept_for)).await?;
    let b = stage.client(1).await?;
    let c = stage.client_with(2, stage.options().ttl(stage.ttl().max(BEARABLE))).await?;
    let kept = a.take("kept", Want::Lock).await?;
    let busy = c.take("crowded", Want::Lock).await?;
    b.take("warm", Want::Lock).await?.release().await?;
    let crowd: Vec<Waiter> = (0..CROWD).map(|_| Waiter::spawn(&b, "crowded", Want::Lock)).collect();
    let other = a.locks().mutex("other")?;
    // Calls that were not answered in time ended in an error, and their claims are being removed.
    let stand = async || {
        let free = stage.drive(other.lock_within(kept_for / 2)).await;
        let unanswered = crowd.iter().filter(|waiter| waiter.is_done()).count();
        let waiting = stage.waiting("crowded").await;
        free.is_ok_and(|free| free.is_some()) && unanswered + waiting >= CROWD
    };
    stage.until(stage.ttl() * 100, "the crowd stands in line, and another name can be taken", stand).await?;
    ensure!(kept.state() != State::Lost, "a crowd that joins cost another client its guard");
    gone_and_kept(stage, crowd, "crowded", &kept).await?;
    busy.release().await?;
    still_kept(stage, kept).await
}
