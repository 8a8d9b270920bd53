//! Point 1, if programs disagree about a name: they use it as two kinds, or declare two sizes, as during the rollout
//! of a new version.

use std::task::{Context, Waker};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Want};

trials! {
    a_claim_of_another_kind_that_is_cut_off_lets_nobody_in: points [1, 11], lessons [29], needs [HoldBack];
    clients_that_declare_two_sizes_are_told_one_at_a_time: points [1], lessons [30], needs [];
}

/// A client asks for the name as another kind, and hears nothing. If the store shows lines, its claim stands there,
/// and the client does not know that it should not.
async fn a_claim_of_another_kind_that_is_cut_off_lets_nobody_in(stage: &Stage) -> Outcome {
    let [stray, a, b, c] = stage.clients().await?;
    stray.take("warm", Want::Lock).await?.release().await?;
    for (want, other) in [
        (Want::Lock, Want::Permits(1, 5)),
        (Want::Lock, Want::Read),
        (Want::Write, Want::Permits(1, 5)),
        (Want::Permits(2, 3), Want::Read),
    ] {
        let name = format!("{want} beside {other}");
        let holder = a.take(&name, want).await?;
        stage.act(Act::HoldReplies(client(0))).await?;
        let mut cut_off = Box::pin(stray.take(&name, other));
        for _ in 0..4 {
            let polled = cut_off.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            ensure!(polled.is_pending(), "an answer came although everything was held back");
            stage.pass(Duration::from_millis(5)).await;
        }
        let waiting = [stage.waiter(&b, &name, want).await?, stage.waiter(&c, &name, want).await?];
        holder.release().await?;
        stage.pass(stage.ttl() / 10).await;
        let in_at_once = waiting.iter().filter(|waiter| waiter.is_done()).count();
        ensure!(in_at_once <= 1, "{in_at_once} claims that exclude each other hold at once, behind {other}");
        drop(cut_off);
        stage.act(Act::Heal).await?;
        for waiter in waiting {
            stage.turn_within(stage.ttl() * 2, waiter).await?.release().await?;
        }
        stage.until_empty(&name).await?;
    }
    Ok(())
}

/// The history is checked: guards that overlap were told the same size, and fit it.
async fn clients_that_declare_two_sizes_are_told_one_at_a_time(stage: &Stage) -> Outcome {
    let clients: [_; 6] = stage.clients().await?;
    let rounds = u32::try_from(stage.many(40, 400)).unwrap_or(u32::MAX);
    let mut deploy: JoinSet<tidelock_core::Result<()>> = JoinSet::new();
    for (client, of) in clients.into_iter().zip([7, 9].into_iter().cycle()) {
        deploy.spawn(async move {
            for round in 0..rounds {
                let hold = client.take("rolled out", Want::Permits(1 + round % 2, of)).await?;
                tokio::task::yield_now().await;
                hold.release().await?;
            }
            Ok(())
        });
    }
    for done in stage.drive(deploy.join_all()).await {
        done?;
    }
    stage.until_empty("rolled out").await
}
