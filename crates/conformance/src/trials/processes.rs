//! Clients that are processes of their own: killed, stopped past their ttl, and many at once.

use std::path::PathBuf;

use crate::failure::{Failure, Outcome, ensure};
use crate::trial::trials;
use crate::{Mishap, Resource, Stage, Want};

trials! {
    processes_exclude_each_other: points [1], lessons [], needs [Child];
    a_killed_process_delays_the_line_by_a_ttl_and_a_tenth: points [5], lessons [14], needs [Child];
    a_killed_process_in_line_delays_it_by_a_ttl_and_a_tenth: points [5], lessons [10], needs [Child];
    a_stopped_process_knows_of_its_loss_before_it_writes_again: points [4, 1], lessons [1, 21], needs [Child];
    a_stopped_processs_late_write_is_refused: points [1, 2, 4], lessons [], needs [Child];
}

/// A file for the processes of one trial, deleted when this is dropped.
struct Counter(PathBuf);

impl Counter {
    fn new() -> Outcome<Self> {
        let name = format!("tidelock-counter-{}-{:?}", std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "0").map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
        Ok(Self(path))
    }

    fn read(&self) -> u64 {
        std::fs::read_to_string(&self.0).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0); // it may never have been written
    }
}

async fn processes_exclude_each_other(stage: &Stage) -> Outcome {
    let (counter, times) = (Counter::new()?, stage.many(50, 1_000) as u64);
    let mut children = Vec::new();
    for number in 0..4 {
        children.push(stage.child(number).await?);
    }
    for child in &mut children {
        child.count(times, "counter", &counter.0.to_string_lossy())?;
    }
    for child in &mut children {
        child.done(stage.ttl() * 20).await?;
    }
    let (counted, expected) = (counter.read(), times * children.len() as u64);
    ensure!(counted == expected, "processes added one {expected} times, but the counter is {counted}");
    Ok(())
}

async fn a_killed_process_delays_the_line_by_a_ttl_and_a_tenth(stage: &Stage) -> Outcome {
    let a = stage.client(0).await?;
    let mut child = stage.child(0).await?;
    child.lock("orphaned").await?;
    stage.pass(stage.ttl() / 2).await; // so that it has been renewed
    let waiting = stage.waiter(&a, "orphaned", Want::Lock).await?;
    child.kill()?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    Ok(())
}

async fn a_killed_process_in_line_delays_it_by_a_ttl_and_a_tenth(stage: &Stage) -> Outcome {
    let [a, b] = stage.clients().await?;
    let hold = a.take("line", Want::Lock).await?;
    let mut child = stage.child(0).await?;
    child.ask("line")?;
    stage.until_waiting("line", 1).await?;
    let waiting = stage.waiter(&b, "line", Want::Lock).await?;
    child.kill()?;
    hold.release().await?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    Ok(())
}

async fn a_stopped_process_knows_of_its_loss_before_it_writes_again(stage: &Stage) -> Outcome {
    let a = stage.client(0).await?;
    let mut child = stage.child(0).await?;
    child.lock("stock").await?;
    ensure!(child.write().await?.is_some(), "a holder's guard is lost for no reason");
    let waiting = stage.waiter(&a, "stock", Want::Lock).await?;
    stage.expect_overlap(); // it learns nothing while it does not run
    child.stop()?;
    stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    // The order is already waiting when it resumes, so it runs before anything can tell it of its loss.
    child.begin_to_write()?;
    child.go_on()?;
    let wrote = child.written().await?;
    ensure!(wrote.is_none(), "a process that was stopped past its ttl wrote as if it still held");
    Ok(())
}

async fn a_stopped_processs_late_write_is_refused(stage: &Stage) -> Outcome {
    let a = stage.client(0).await?;
    let resource = Resource::new(stage.recorder(), "stock");
    let mut child = stage.child(0).await?;
    child.lock("stock").await?;
    let Some(first) = child.write().await? else {
        return Err(Failure::new("a holder's guard is lost for no reason"));
    };
    let who = child.label().into();
    ensure!(resource.write_under(&who, first), "the holder's first write was refused");
    let waiting = stage.waiter(&a, "stock", Want::Lock).await?;
    stage.expect_overlap();
    child.stop()?;
    let next = stage.turn_within(stage.ttl() * 11 / 10, waiting).await?;
    ensure!(resource.write(&next), "the new holder's write was refused");
    child.go_on()?;
    // It checked its guard before it was stopped, and does not check again.
    let late = child.write_on().await?;
    let Some(late) = late.filter(|_| stage.may_overlap(Mishap::StoppedClient)) else {
        return Err(Failure::new("the declared overlap could not be forced"));
    };
    ensure!(!resource.write_under(&who, late), "the stopped process's write was accepted");
    Ok(())
}
