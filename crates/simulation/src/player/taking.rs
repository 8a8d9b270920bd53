//! How a task takes a lock in the way of its plan, and what becomes of the guard.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tidelock_core::backend::Sleep;
use tidelock_core::{Guard, Locks, Owner, Reentrant, Result, Striped, WriteGuard};
use tidelock_history::EventKind;

use super::Player;
use super::asking::{Asked, Asking, Busy};
use super::hold::{AnyGuard, Endings, Hold};
use crate::plan::{End, How, Taking, Tool, Wanted, ms, name_of};
use crate::time::lock;

/// How many stripes a striped lock has.
const STRIPES: usize = 2;

impl Player {
    pub(super) async fn take(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<()> {
        if let Tool::All(others) = &taking.tool {
            return self.take_all(locks, taking, others).await;
        }
        let taken = match taking.tool {
            Tool::AnyStripe => self.acquire_any_stripe(locks, taking).await?,
            _ => self.acquire(locks, taking).await?,
        };
        match taken {
            Some(hold) => self.hold(hold, taking).await,
            None => Ok(()),
        }
    }

    async fn hold(&self, mut hold: Hold, taking: &Taking) -> Result<()> {
        if let Some(AnyGuard::Twice(_, inner)) = &mut hold.guard {
            drop(inner.take()); // the outer one still holds
        }
        match (&hold.guard, taking.runs) {
            (Some(guard), true) => guard.guard().run(self.keep(ms(taking.keep))).await?,
            _ => self.keep(ms(taking.keep)).await,
        }
        match taking.end {
            End::Release => hold.release().await,
            End::Drop => {
                drop(hold);
                Ok(())
            }
            End::Neglect(length) => {
                let mut release = Box::pin(hold.release());
                let _ = release.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                self.keep(ms(length)).await;
                Ok(())
            }
            End::HandOver(length) => {
                let player = self.clone();
                lock(&self.field.handed_over).spawn(async move {
                    player.keep(ms(length)).await;
                    drop(hold);
                });
                Ok(())
            }
            End::Downgrade(length) => {
                let hold = hold.downgrade().await?;
                self.keep(ms(length)).await;
                hold.release().await
            }
        }
    }

    async fn acquire(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<Option<Hold>> {
        let field = &self.field;
        let mut name = name_of(taking.name);
        let (mut own, mut locks) = (None, locks.clone());
        match taking.tool {
            Tool::Ttl(ttl) => {
                locks = locks.with_ttl(ms(ttl))?;
                own = Some(locks.clone());
            }
            Tool::Striped(key) => {
                let striped = Striped::new(&*locks, &name, STRIPES)?;
                name = format!("{name}#{}", striped.index_of(&key.to_le_bytes()));
            }
            _ => {}
        }
        let claim = field.record.ask(self.client, &name, taking.wanted.want());
        let mut asked = Asked::new(&[claim].into(), &field.record, &locks);
        asked.is_polled = !matches!(taking.how, How::Away(..) | How::Neglect(_));
        asked.is_plain = taking.tool == Tool::Plain;
        let work = Box::pin(self.work(locks, taking));
        let taken = self.as_patient(taking, &name, Asking { asked, work }).await?;
        Ok(taken.map(|guard| Hold::new(&field.record, claim, guard, own)))
    }

    /// While it is under way it may stand in the line of any stripe.
    async fn acquire_any_stripe(&self, locks: &Arc<dyn Locks>, taking: &Taking) -> Result<Option<Hold>> {
        let (field, name) = (&self.field, name_of(taking.name));
        let striped = Striped::new(&**locks, &name, STRIPES)?;
        let names: Vec<String> = (0..STRIPES).map(|index| format!("{name}#{index}")).collect();
        let _busy: Vec<Busy> = names.iter().map(|name| Busy::new(&field.record, name)).collect();
        let ask = |name: &String| field.record.ask(self.client, name, taking.wanted.want());
        let claims: Arc<[u64]> = names.iter().map(ask).collect();
        let asked = Asked::new(&claims, &field.record, locks);
        let work = Box::pin(striped.any());
        let Some(guard) = self.as_patient(taking, &name, Asking { asked, work }).await? else {
            return Ok(None);
        };
        let taken = guard.index();
        for (_, claim) in claims.iter().enumerate().filter(|(index, _)| *index != taken) {
            field.record.not_granted(*claim, EventKind::Cancelled);
        }
        Ok(Some(Hold::new(&field.record, claims[taken], AnyGuard::Stripe(guard), None)))
    }

    /// Waits in the way of the plan.
    async fn as_patient<T>(
        &self,
        taking: &Taking,
        name: &str,
        mut asking: impl Future<Output = Result<Option<T>>> + Unpin,
    ) -> Result<Option<T>> {
        let clock = self.clock();
        match taking.how {
            How::Wait | How::Try | How::Within(_) => {
                let began = clock.now();
                let taken = asking.await;
                if let How::Within(patience @ 1..) = taking.how // without patience it is a try
                    && !matches!(taking.tool, Tool::Striped(_) | Tool::AnyStripe)
                {
                    self.judge_patience("an acquire", clock.now().since(began), ms(patience));
                }
                taken
            }
            How::Polls(most, longest) => {
                let (mut polls, at) = (0, clock.now() + ms(longest));
                let mut sleep = Box::pin(Sleep::until(&clock, at));
                poll_fn(|cx| {
                    polls += 1;
                    if polls > most || sleep.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(Ok(None));
                    }
                    Pin::new(&mut asking).poll(cx)
                })
                .await
            }
            How::Neglect(length) => {
                let _busy = Busy::new(&self.field.record, name);
                if let Poll::Ready(taken) =
                    Pin::new(&mut asking).poll(&mut Context::from_waker(Waker::noop()))
                {
                    return taken;
                }
                self.keep(ms(length)).await;
                Ok(None)
            }
            How::Away(polls, length) => {
                let _busy = Busy::new(&self.field.record, name);
                away(polls, self.rest(ms(length)), asking).await
            }
        }
    }

    async fn work(&self, locks: Arc<dyn Locks>, taking: &Taking) -> Result<Option<AnyGuard>> {
        let name = name_of(taking.name);
        let plain = |guard: Option<Guard>| guard.map(AnyGuard::Plain);
        let write = |guard: Option<WriteGuard>| guard.map(AnyGuard::Write);
        match (&taking.tool, taking.wanted, taking.how) {
            (Tool::Striped(key), ..) => {
                let striped = Striped::new(&*locks, &name, STRIPES)?;
                striped.by_key(&key.to_le_bytes()).await.map(|guard| Some(AnyGuard::Stripe(guard)))
            }
            (Tool::Reentrant { at_once }, _, how) => {
                let (reentrant, owner) = (Reentrant::new(locks.mutex(&name)?), Owner::new());
                let patience = match how {
                    How::Within(patience) => ms(patience),
                    How::Try => {
                        return Ok(reentrant
                            .try_lock(&owner)
                            .await?
                            .map(|guard| AnyGuard::Twice(guard, None)));
                    }
                    _ => Duration::MAX,
                };
                if !at_once {
                    let Some(first) = reentrant.lock_within(&owner, patience).await? else { return Ok(None) };
                    let second = reentrant.try_lock(&owner).await?;
                    return Ok(Some(AnyGuard::Twice(first, second)));
                }
                let lock = || reentrant.lock_within(&owner, patience);
                Ok(match join(lock(), lock()).await? {
                    (Some(first), second) => Some(AnyGuard::Twice(first, second)),
                    (None, second) => second.map(|guard| AnyGuard::Twice(guard, None)),
                })
            }
            (_, Wanted::Lock, How::Try) => locks.mutex(&name)?.try_lock().await.map(plain),
            (_, Wanted::Lock, How::Within(patience)) => {
                locks.mutex(&name)?.lock_within(ms(patience)).await.map(plain)
            }
            (_, Wanted::Lock, _) => locks.mutex(&name)?.lock().await.map(Some).map(plain),
            (_, Wanted::Read, How::Try) => locks.rwlock(&name)?.try_read().await.map(plain),
            (_, Wanted::Read, How::Within(patience)) => {
                locks.rwlock(&name)?.read_within(ms(patience)).await.map(plain)
            }
            (_, Wanted::Read, _) => locks.rwlock(&name)?.read().await.map(Some).map(plain),
            (_, Wanted::Write, How::Try) => locks.rwlock(&name)?.try_write().await.map(write),
            (_, Wanted::Write, How::Within(patience)) => {
                locks.rwlock(&name)?.write_within(ms(patience)).await.map(write)
            }
            (_, Wanted::Write, _) => locks.rwlock(&name)?.write().await.map(Some).map(write),
            (_, Wanted::Permits(n, of), How::Try) => {
                locks.semaphore(&name, of)?.try_acquire(n).await.map(plain)
            }
            (_, Wanted::Permits(n, of), How::Within(patience)) => {
                locks.semaphore(&name, of)?.acquire_within(n, ms(patience)).await.map(plain)
            }
            (_, Wanted::Permits(n, of), _) => {
                locks.semaphore(&name, of)?.acquire(n).await.map(Some).map(plain)
            }
        }
    }

    /// Takes several mutexes together. While it is under way it may hold some of them.
    async fn take_all(&self, locks: &Arc<dyn Locks>, taking: &Taking, others: &[usize]) -> Result<()> {
        let field = &self.field;
        let names: Vec<String> =
            std::iter::once(&taking.name).chain(others).map(|name| name_of(*name)).collect();
        let claims: Arc<[u64]>;
        let taken = {
            let _busy: Vec<Busy> = names.iter().map(|name| Busy::new(&field.record, name)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let ask = |name: &&str| field.record.ask(self.client, name, taking.wanted.want());
            claims = names.iter().map(ask).collect();
            let asked = Asked::new(&claims, &field.record, locks);
            let work = Box::pin(async {
                match taking.how {
                    How::Within(patience) => locks.lock_all_within(&names, ms(patience)).await,
                    _ => locks.lock_all(&names).await.map(Some),
                }
            });
            let mut work = Asking { asked, work };
            let clock = self.clock();
            let longest = if let How::Polls(_, longest) | How::Neglect(longest) = taking.how {
                Some(ms(longest))
            } else {
                None
            };
            let mut sleep = longest.map(|longest| Box::pin(Sleep::until(&clock, clock.now() + longest)));
            poll_fn(|cx| {
                if sleep.as_mut().is_some_and(|sleep| sleep.as_mut().poll(cx).is_ready()) {
                    return Poll::Ready(Ok(None));
                }
                Pin::new(&mut work).poll(cx)
            })
            .await?
        };
        let Some(guards) = taken else { return Ok(()) };
        for (claim, name) in claims.iter().zip(&names) {
            if let Some(guard) = guards.iter().find(|guard| guard.name().as_str() == name) {
                field.record.granted(*claim, guard);
            }
        }
        let endings = Endings { claims, record: field.record.clone() };
        self.keep(ms(taking.keep)).await;
        drop(endings);
        match taking.end {
            End::Release => guards.release().await.map(drop),
            _ => Ok(()),
        }
    }
}

/// Polls the work so often, then not before the pause is over, and then to its end.
async fn away<T>(
    polls: u32,
    pause: impl Future<Output = ()>,
    mut work: impl Future<Output = T> + Unpin,
) -> T {
    let (mut left, mut pause, mut is_back) = (polls, Box::pin(pause), false);
    poll_fn(|cx| {
        if left > 0 {
            left -= 1;
        } else if !is_back {
            std::task::ready!(pause.as_mut().poll(cx));
            is_back = true;
        }
        Pin::new(&mut work).poll(cx)
    })
    .await
}

/// Both outcomes of futures that are polled together, or the first error.
async fn join<T>(
    first: impl Future<Output = Result<T>>,
    second: impl Future<Output = Result<T>>,
) -> Result<(T, T)> {
    let (mut first, mut second) = (Box::pin(first), Box::pin(second));
    let (mut one, mut other) = (None, None);
    poll_fn(|cx| {
        if one.is_none()
            && let Poll::Ready(done) = first.as_mut().poll(cx)
        {
            one = Some(done?);
        }
        if other.is_none()
            && let Poll::Ready(done) = second.as_mut().poll(cx)
        {
            other = Some(done?);
        }
        match (one.take(), other.take()) {
            (Some(first), Some(second)) => Poll::Ready(Ok((first, second))),
            (first, second) => {
                (one, other) = (first, second);
                Poll::Pending
            }
        }
    })
    .await
}
