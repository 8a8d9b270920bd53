//! What operators see: events, and the fields of spans. This is a program of its own, because the keeper's thread has
//! no subscriber but that of the whole process. Each test reads the lines that name its own lock.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

use tidelock_core::backend::{Layered, attach};
use tidelock_core::prelude::*;
use tidelock_memory::{Clock, Store};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

#[path = "all/keeps_only_claims.rs"]
mod keeps_only_claims;

use self::keeps_only_claims::KeepsOnlyClaims;

type Done = tidelock_core::Result<()>;

/// A line for each event, `WARN message field=value`, and one for each span that has ended, `acquire field=value`.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
/// The spans that are open, each with its handles.
static OPEN: Mutex<BTreeMap<u64, (String, usize)>> = Mutex::new(BTreeMap::new());

struct Log;

fn lock<T>(kept: &Mutex<T>) -> MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The lines so far that contain this text.
fn told_of(text: &str) -> Vec<String> {
    lock(&TOLD).iter().filter(|line| line.contains(text)).cloned().collect()
}

fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| tracing::subscriber::set_global_default(Log).expect("the only one"));
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        written.expect("a text takes everything");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("tidelock")
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut text = span.metadata().name().to_owned();
        span.record(&mut Fields(&mut text));
        lock(&OPEN).insert(id, (text, 1));
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        if let Some((text, _)) = lock(&OPEN).get_mut(&id.into_u64()) {
            values.record(&mut Fields(text));
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = event.metadata().level().to_string();
        event.record(&mut Fields(&mut text));
        lock(&TOLD).push(text);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        if let Some((_, handles)) = lock(&OPEN).get_mut(&id.into_u64()) {
            *handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut open = lock(&OPEN);
        let Some((_, handles)) = open.get_mut(&id.into_u64()) else { return false };
        *handles -= 1;
        if *handles > 0 {
            return false;
        }
        let ended = open.remove(&id.into_u64());
        drop(open);
        lock(&TOLD).extend(ended.map(|(text, _)| text));
        true
    }
}

/// A store on a clock that is turned by hand, and a client of it.
fn on_a_manual_clock(options: Options) -> tidelock_core::Result<(Clock, Store, Arc<dyn Locks>)> {
    listen();
    let clock = Clock::manual();
    let store = Store::with_clock(&clock);
    let layered = Layered::new(Arc::new(store.clone()), Arc::new(KeepsOnlyClaims));
    let locks = attach(Arc::new(layered), options)?;
    Ok((clock, store, locks))
}

/// Lets this much time pass, in steps that are short for a ttl.
async fn pass(clock: &Clock, time: Duration) {
    const STEP: Duration = Duration::from_millis(100);
    for _ in 0..time.as_millis() / STEP.as_millis() {
        clock.pass(STEP).await;
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn renewals_are_not_said_to_succeed_while_nothing_is_renewed() -> Done {
    let ttl = Options::new().ttl;
    let (clock, store, locks) = on_a_manual_clock(Options::new())?;
    let held = locks.mutex("the dead store's")?.lock().await?;
    store.faults().refuse_all();
    pass(&clock, ttl * 3).await;
    assert_eq!(held.state(), State::Lost);
    let warned = told_of("renewal failed, retrying");
    assert!(warned.iter().any(|line| line.contains("the dead store's")), "{warned:?}");
    // The lines of another test, which runs beside this one, name its lock.
    let told = told_of("renewals succeed again");
    assert!(told.iter().all(|line| line.contains("kept through an outage")), "{told:?}");
    Ok(())
}

#[tokio::test]
async fn renewals_are_said_to_succeed_again_with_the_locks_that_are_held() -> Done {
    let (clock, store, locks) = on_a_manual_clock(Options::new())?;
    let held = locks.mutex("kept through an outage")?.lock().await?;
    store.faults().refuse_all();
    pass(&clock, Options::new().ttl / 2).await;
    store.faults().heal();
    pass(&clock, Options::new().ttl / 2).await;
    assert_eq!(held.state(), State::Held);
    let told = told_of("kept through an outage");
    let [warned, again] =
        ["WARN renewal failed, retrying; these locks are lost", "INFO renewals succeed again; these locks"];
    for part in [warned, again] {
        assert!(told.iter().any(|line| line.starts_with(part)), "{part}: {told:?}");
    }
    Ok(())
}

#[tokio::test]
async fn a_failed_renewal_of_a_waiter_is_not_said_to_endanger_a_lock() -> Done {
    let (clock, store, locks) = on_a_manual_clock(Options::new())?;
    let other = store.attach(Options::new())?;
    let held = other.mutex("only waited for")?.lock().await?;
    let waiting = tokio::spawn({
        let mutex = locks.mutex("only waited for")?;
        async move { mutex.lock().await.map(drop) }
    });
    while other.inspect("only waited for").await?.waiters().count() == 0 {
        tokio::task::yield_now().await;
    }
    store.faults().refuse_all();
    pass(&clock, Options::new().ttl / 2).await;
    let told = told_of("only waited for");
    let places = "WARN renewal failed, retrying; the places in line for these locks are lost";
    assert!(told.iter().any(|line| line.starts_with(places)), "{told:?}");
    waiting.abort();
    drop((held, locks));
    Ok(())
}

#[tokio::test]
async fn another_size_is_one_warning_however_many_handles_there_are() -> Done {
    let (_clock, store, locks) = on_a_manual_clock(Options::new())?;
    let other = store.attach(Options::new())?;
    let warned = |name: &str| told_of(&format!("semaphore {name:?} already exists with 5 permits"));

    let held = other.semaphore("sized by a grant", 5)?.acquire(1).await?;
    for _ in 0..3 {
        locks.semaphore("sized by a grant", 8)?.acquire(1).await?.release().await?.confirmed()?;
    }
    assert_eq!(warned("sized by a grant").len(), 1);
    held.release().await?.confirmed()?;

    let held = other.semaphore("sized by size()", 5)?.acquire(5).await?;
    assert!(locks.semaphore("sized by size()", 8)?.try_acquire(1).await?.is_none());
    assert_eq!(locks.semaphore("sized by size()", 8)?.size().await?, 5);
    assert_eq!(warned("sized by size()").len(), 1);
    held.release().await?.confirmed()?;

    let held = other.semaphore("sized by a refusal", 5)?.acquire(1).await?;
    let error = locks.semaphore("sized by a refusal", 8)?.acquire(6).await.expect_err("there are 5");
    assert_eq!(error.kind(), ErrorKind::InvalidPermits);
    assert_eq!(warned("sized by a refusal").len(), 1);
    held.release().await?.confirmed()?;
    Ok(())
}

#[tokio::test]
async fn the_spans_tell_how_an_acquire_ended_and_why_a_hold_was_lost() -> Done {
    let (clock, store, locks) = on_a_manual_clock(Options::new())?;
    let held = locks.mutex("traced")?.lock().await?;
    assert!(locks.mutex("traced")?.try_lock().await?.is_none());
    let error = locks.semaphore("traced", 1)?.try_acquire(1).await.expect_err("it is a mutex");
    store.faults().refuse_all();
    pass(&clock, Options::new().ttl * 2).await;
    drop(held);
    store.faults().heal();
    pass(&clock, Options::new().ttl).await;
    locks.mutex("traced")?.lock().await?.release().await?.confirmed()?;

    let told = told_of("traced");
    let acquire = "acquire lock.name=traced lock.kind=";
    let hold = "hold lock.name=traced token=";
    let lost = "no renewal reached the store before its lease could end there";
    let count = |begin: &str, end: &str| {
        told.iter().filter(|line| line.starts_with(begin) && line.ends_with(end)).count()
    };
    assert_eq!(count(acquire, "mutex outcome=granted"), 2, "{told:#?}");
    assert_eq!(count(acquire, "mutex outcome=none"), 1, "{told:#?}");
    let refused = format!("semaphore outcome=error error.kind=KindMismatch error={error}");
    assert_eq!(count(acquire, &refused), 1, "{told:#?}");
    assert_eq!((count(hold, ""), count(hold, &format!(" loss={lost}"))), (2, 1), "{told:#?}");
    assert_eq!(count("WARN the lock was lost lock.name=traced", &format!(" loss={lost}")), 1, "{told:#?}");
    Ok(())
}

#[tokio::test]
async fn an_eviction_is_logged_with_the_label_of_its_victim() -> Done {
    let (_clock, store, locks) = on_a_manual_clock(Options::new())?;
    let other = store.attach(Options::new().label("victim 7"))?;
    let held = other.mutex("evicted")?.lock().await?;
    assert!(locks.evict("evicted", held.claim()).await?);
    assert!(!locks.evict("evicted", held.claim()).await?, "it is gone already");
    let claim = held.claim();
    let told = told_of("an operator evicted");
    assert_eq!(
        told,
        [format!("WARN an operator evicted a holder lock.name=evicted claim={claim} label=victim 7")]
    );
    Ok(())
}
