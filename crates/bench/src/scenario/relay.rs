//! A line that is always equally long, to time hand-offs in.
//!
//! The holder's task gives back on command, and whoever is next takes it. After each hand-off one more joins at the
//! end, and only when it stands there is the next one commanded. What is timed goes from before the holder's task
//! gives back until the next one's task has it in hand.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::Result;
use crate::exclusion::Exclusion;

pub(super) struct Relay<E> {
    /// They join by turns, so that each hand-off goes from one side to the other.
    sides: [E; 2],
    joined: usize,
    /// The holder first.
    line: VecDeque<Runner>,
}

/// One task in the line.
struct Runner {
    took: oneshot::Receiver<Instant>,
    go: oneshot::Sender<()>,
    gave: JoinHandle<Result<Instant>>,
}

impl<E: Exclusion> Relay<E> {
    /// A line with a holder, one who is next, and so many more behind.
    pub(super) async fn start(sides: [E; 2], more: usize) -> Result<Self> {
        let mut relay = Self { sides, joined: 0, line: VecDeque::new() };
        for _ in 0..more + 2 {
            relay.fill_up().await?;
        }
        relay.front_takes().await?;
        Ok(relay)
    }

    /// One hand-off, and how long it took. The line is one shorter after it.
    pub(super) async fn hand_off(&mut self) -> Result<Duration> {
        let holder = self.line.pop_front().ok_or("nobody holds")?;
        let _ = holder.go.send(()); // it can only fail if the task has, which is seen just below
        let took = self.front_takes().await;
        let gave = holder.gave.await??;
        Ok(took?.saturating_duration_since(gave))
    }

    /// One more joins at the end. It stands there when this returns: the line here is the line in the store.
    pub(super) async fn fill_up(&mut self) -> Result<()> {
        let side = self.sides[self.joined % 2].clone();
        self.joined += 1;
        self.line.push_back(Runner::start(side).await?);
        self.sides[0].stand(self.line.len()).await
    }

    /// Everyone takes it and gives it back, to the last.
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

    /// Whoever is at the front has it in hand.
    async fn front_takes(&mut self) -> Result<Instant> {
        let front = self.line.front_mut().ok_or("nobody is in line")?;
        Ok((&mut front.took).await?)
    }
}

impl Runner {
    /// One that asks; on return it has done so once.
    async fn start<E: Exclusion>(side: E) -> Result<Self> {
        let (asked, was_asked) = oneshot::channel();
        let (take, took) = oneshot::channel();
        let (go, may_go) = oneshot::channel();
        let gave = tokio::spawn(run(side, asked, take, may_go));
        was_asked.await?;
        Ok(Self { took, go, gave })
    }
}

/// Takes its turn, waits for the command, and gives back; says when it began to.
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
        asked.take().map(|asked| asked.send(())); // it asks at its first poll
        polled
    });
    let held = held.await?;
    let _ = took.send(Instant::now());
    go.await?;
    let gave = Instant::now();
    side.give_back(held).await?;
    Ok(gave)
}
