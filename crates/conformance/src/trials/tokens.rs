//! Point 2. Of two conflicting grants the later has the greater token, whatever happens in between.

use tidelock_core::{Fence, Token};

use crate::failure::{Outcome, ensure};
use crate::stage::client;
use crate::trial::trials;
use crate::{Act, Stage, Want};

trials! {
    tokens_grow_although_the_line_was_empty: points [2, 10], lessons [22], needs [];
    tokens_grow_from_client_to_client: points [2], lessons [], needs [];
    tokens_grow_when_a_holder_dies: points [2, 5], lessons [], needs [Kill];
    tokens_grow_over_an_eviction: points [2], lessons [], needs [];
    an_earlier_sessions_claim_is_not_ones_own: points [2, 7], lessons [17], needs [EndSession];
    a_downgrade_keeps_its_token: points [2], lessons [], needs [];
    a_token_fits_where_numbers_are_doubles: points [2], lessons [], needs [];
    a_resource_refuses_an_older_token: points [2], lessons [], needs [];
}

/// Takes the name and gives it back, and returns the token.
async fn token_of(client: &crate::Client, name: &str, want: Want) -> Outcome<Token> {
    let hold = client.take(name, want).await?;
    let token = hold.token();
    hold.release().await?;
    Ok(token)
}

async fn tokens_grow_although_the_line_was_empty(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    for want in Want::ALONE {
        let name = format!("emptied {want}");
        let mut last = None;
        for round in 0..20 {
            let token = token_of(&a, &name, want).await?;
            ensure!(Some(token) > last, "round {round} of {name}: token {token} was granted after {last:?}");
            last = Some(token);
            stage.until_empty(&name).await?;
        }
    }
    Ok(())
}

async fn tokens_grow_from_client_to_client(stage: &Stage) -> Outcome {
    let clients = stage.clients::<4>().await?;
    let mut last = None;
    for _ in 0..stage.many(50, 2_000) {
        let token = token_of(stage.dice().pick(&clients), "shared", Want::Lock).await?;
        ensure!(Some(token) > last, "token {token} was granted after {last:?}");
        last = Some(token);
    }
    Ok(())
}

async fn tokens_grow_when_a_holder_dies(stage: &Stage) -> Outcome {
    let [dead, alive] = stage.clients().await?;
    let mut orphaned = Vec::new();
    for want in Want::ALONE {
        let name = format!("orphaned {want}");
        let hold = dead.take(&name, want).await?;
        orphaned.push((hold, stage.waiter(&alive, &name, want).await?));
    }
    stage.act(Act::Kill(client(0))).await?;
    for (hold, waiting) in orphaned {
        let next = stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
        ensure!(
            next.token() > hold.token(),
            "token {} was granted after the dead holder's token {}",
            next.token(),
            hold.token()
        );
    }
    Ok(())
}

async fn tokens_grow_over_an_eviction(stage: &Stage) -> Outcome {
    let [a, operator] = stage.clients().await?;
    let hold = a.take("stock", Want::Lock).await?;
    stage.expect_overlap();
    stage.evict(&operator, "stock").await?;
    let next = operator.take("stock", Want::Lock).await?;
    ensure!(
        next.token() > hold.token(),
        "token {} was granted after the evicted holder's token {}",
        next.token(),
        hold.token()
    );
    Ok(())
}

async fn an_earlier_sessions_claim_is_not_ones_own(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("stock", Want::Lock).await?;
    let waiting = stage.waiter(&b, "stock", Want::Lock).await?;
    stage.act(Act::EndSession(client(0))).await?;
    let again = stage.waiter(&a, "stock", Want::Lock).await?;
    let next = stage.turn(waiting).await?;
    ensure!(next.token() > hold.token(), "token {} was granted after token {}", next.token(), hold.token());
    stage.pass(stage.ttl()).await;
    ensure!(!again.is_done(), "a client holds through a claim of an earlier session");
    next.release().await?;
    let again = stage.turn(again).await?;
    drop(hold); // late, of a session that is over: this must free no claim
    stage.pass(stage.ttl() / 2).await;
    ensure!(
        again.state() == tidelock_core::State::Held,
        "a late leave of an earlier session freed the current hold"
    );
    Ok(())
}

async fn a_downgrade_keeps_its_token(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let writer = a.take("table", Want::Write).await?;
    let token = writer.token();
    let reader = writer.downgrade().await?;
    ensure!(reader.token() == token, "token {} after a downgrade from {token}", reader.token());
    reader.release().await?;
    ensure!(token_of(&a, "table", Want::Write).await? > token, "the next writer's token is not greater");
    Ok(())
}

async fn a_token_fits_where_numbers_are_doubles(stage: &Stage) -> Outcome {
    let [a] = stage.clients().await?;
    let token = token_of(&a, "any", Want::Lock).await?.get();
    ensure!(
        token > 0 && token < 1 << 53,
        "token {token} cannot be represented exactly in JSON, JavaScript or Lua"
    );
    ensure!(token.trailing_zeros() >= 5, "token {token} leaves no room for hand-offs inside a process");
    Ok(())
}

async fn a_resource_refuses_an_older_token(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let (older, newer) = (token_of(&a, "x", Want::Lock).await?, token_of(&b, "x", Want::Lock).await?);
    let fence = Fence::new();
    ensure!(fence.accept(older).is_ok() && fence.accept(newer).is_ok(), "the fence refused tokens in order");
    ensure!(fence.accept(newer).is_ok(), "the fence refused the same token when it came again");
    ensure!(fence.accept(older).is_err(), "the fence accepted an older token after a newer one");
    Ok(())
}
