//! A line of constant length, in which hand-offs are timed.
//!
//! The holder's task gives back on command, and the next task takes the lock. After each hand-off another task joins
//! at the end. The next hand-off is commanded only when that task stands in line. The time runs from before the
//! holder's task gives back until the next task has the lock.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Result;
use crate::exclusion::Exclusion;

pub(super) struct Relay<E> {
    /// Tasks join for each side in turn, so that each hand-off goes from one side to the other.
    sides: [E; 2],
    joined: usize,
    /// The holder comes first.
    line: VecDeque<Runner>,
}

/// One task in the line.
struct Runner {
    took: oneshot::Receiver<Instant>,
    go: oneshot::Sender<()>,
    gave: JoinHandle<Result<Instant>>,
}

impl<E: Exclusion> Relay<E> {
    /// A line with a holder, a next task, and this many more behind.
    pub(super) async fn start(sides: [E; 2], more: usize) -> Result<Self> {
        let mut relay = Self { sides, joined: 0, line: VecDeque::new() };
        for _ in 0..more + 2 {
            relay.fill_up().await?;
        }
        relay.front_takes().await?;
        Ok(relay)
    }

    /// Makes one hand-off, and returns its duration. The line is one shorter afterwards.
    pub(super) async fn hand_off(&mut self) -> Result<Duration> {
        let holder = self.line.pop_front().ok_or("no task holds the lock")?;
        let _ = holder.go.send(()); // fails only if the task has failed, which is seen just below
        let took = self.front_takes().await;
        let gave = holder.gave.await??;
        Ok(took?.saturating_duration_since(gave))
    }

    /// Adds one task at the end, which stands in line when this returns. So this line is equal to the line in the
    /// store.
    pub(super) async fn fill_up(&mut self) -> Result<()> {
        let side = self.sides[self.joined % 2].clone();
        self.joined += 1;
        self.line.push_back(Runner::start(side).await?);
        self.sides[0].stand(self.line.len()).await
    }

    /// Every task takes the lock and gives it back, to the last.
    pub(super) async fn end(mut self) -> Result<()> {
        while self.line.len() > 1 {
            self.hand_off().await?;
        }
        match self.line.pop_front() {
            Some(last) => {
                let _ = last.go.send(());
                last.gave.await?.map(drop)
            }
            None => Ok(()),
        }
    }

    /// Waits until the task at the front has the lock.
    async fn front_takes(&mut self) -> Result<Instant> {
        let front = self.line.front_mut().ok_or("no task is in line")?;
        Ok((&mut front.took).await?)
    }
}

impl Runner {
    /// Starts a task; it has asked for the lock once when this returns.
    async fn start<E: Exclusion>(side: E) -> Result<Self> {
        let (asked, was_asked) = oneshot::channel();
        let (take, took) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        let gave = tokio::spawn(run(side, asked, take, may_go));
        was_asked.await?;
        Ok(Self { took, go, gave })
    }
}

/// Takes its turn, waits for the command, and gives back. Reports when the give-back began.
async fn run<E: Exclusion>(
    side: E,
    asked: oneshot::Sender<()>,
    took: oneshot::Sender<Instant>,
    go: oneshot::Receiver<()>,
) -> Result<Instant> {
    let mut taking = pin!(side.take());
    let mut asked = Some(asked);
    let held = poll_fn(|cx| {
        let polled = taking.as_mut().poll(cx);
        asked.take().map(|asked| asked.send(())); // the first poll sends the request
        polled
    });
    let held = held.await?;
    let _ = took.send(Instant::now());
    go.await?;
    let gave = Instant::now();
    side.give_back(held).await?;
    Ok(gave)
}
