//! The store is away while no session is open: acquires keep trying to open one for as long as a command may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tidelock_core::backend::{Backend, Layer, Layered, Session, Signals};
use tidelock_core::{Error, ErrorKind, Locks, Options, SessionId};
use tidelock_memory::Store;

use crate::condition::until;
use crate::layered;
use crate::line::{until_waiting, waiter};

type Done = tidelock_core::Result<()>;

const OUTAGE: Duration = Duration::from_millis(300);

/// A store that is away for a while, and counts the attempts to open a session.
#[derive(Debug)]
struct Away {
    back_at: Instant,
    kind: ErrorKind,
    opens: AtomicUsize,
}

impl Away {
    fn new(outage: Duration, kind: ErrorKind) -> Arc<Self> {
        Arc::new(Self { back_at: Instant::now() + outage, kind, opens: AtomicUsize::new(0) })
    }

    fn attach(self: &Arc<Self>, options: Options) -> tidelock_core::Result<Arc<dyn Locks>> {
        layered::attach(&Store::new(), self.clone(), options)
    }
}

#[async_trait]
impl Layer for Away {
    async fn open(
        &self,
        to: &dyn Backend,
        id: SessionId,
        options: &Options,
        signals: Arc<dyn Signals>,
    ) -> tidelock_core::Result<Arc<dyn Session>> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        match Instant::now() < self.back_at {
            true => Err(Error::new(self.kind, "the store is away")),
            false => to.open(id, options, signals).await,
        }
    }
}

fn patient() -> Options {
    Options::new().ttl(Duration::from_secs(1)).command_deadline(Duration::from_secs(30))
}

#[tokio::test]
async fn who_acquires_outlasts_an_outage_before_its_first_session() -> Done {
    let away = Away::new(OUTAGE, ErrorKind::Unavailable);
    let locks = away.attach(patient())?;
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?;
    locks.close().await
}

#[tokio::test]
async fn who_waited_when_its_session_ended_outlasts_the_outage() -> Done {
    let store = Store::new();
    let (holds, waits) = (store.attach(patient())?, store.attach(patient().label("waits"))?);
    let held = holds.mutex("m")?.lock().await?;
    let waiter = waiter(&waits, "m");
    until_waiting(&holds, "m", 1).await;
    store.faults().refuse_all();
    store.faults().lose_sessions_of("waits");
    tokio::time::sleep(OUTAGE).await;
    store.faults().heal();
    held.release().await?.confirmed()?;
    waiter.await.expect("no panic")?.release().await?.confirmed()
}

#[tokio::test]
async fn a_crowd_opens_one_session_at_a_time_and_pauses_in_between() -> Done {
    let began = Instant::now();
    let away = Away::new(OUTAGE, ErrorKind::Unavailable);
    let locks = away.attach(patient())?;
    let mut crowd = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let mutex = locks.mutex(&format!("m{n}"))?;
        crowd.spawn(async move { mutex.lock().await?.release().await?.confirmed() });
    }
    while let Some(acquired) = crowd.join_next().await {
        acquired.expect("no panic")?;
    }
    let opens = away.opens.load(Ordering::Relaxed);
    // Attempts come after 0, 20, 60, 140 and 300 ms. If a busy machine starts the crowd bit by bit, at most one in 20
    // ms, for as long as that takes.
    let most = 1 + began.elapsed().as_millis() / 20;
    assert!((2..=most).contains(&(opens as u128)), "{opens} attempts to open a session");
    locks.close().await
}

#[tokio::test]
async fn who_comes_when_the_store_is_back_waits_out_nobodys_rest() -> Done {
    let rest = Duration::from_secs(60);
    for is_ping in [true, false] {
        let away = Away::new(OUTAGE, ErrorKind::Unavailable);
        let options = Options::new().command_deadline(OUTAGE / 6).back_off(rest, rest);
        let locks = away.attach(options)?;
        while Instant::now() < away.back_at {
            let tried = locks.mutex("m")?.lock_within(OUTAGE * 10).await;
            assert!(tried.map_or_else(|error| error.kind() == ErrorKind::Unavailable, |got| got.is_some()));
        }
        let served = async {
            match is_ping {
                true => locks.ping().await,
                false => locks.mutex("m")?.lock().await?.release().await?.confirmed(),
            }
        };
        tokio::time::timeout(Duration::from_secs(5), served).await.expect("the store is back")?;
        locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_acquire_outlasts_a_short_outage_whatever_others_have_asked_before() -> Done {
    let (first, longest) = (OUTAGE / 15, Duration::from_secs(10));
    let options = || Options::new().command_deadline(OUTAGE * 10).back_off(first, longest);
    // Earlier callers have asked, and ask no more.
    let away = Away::new(OUTAGE, ErrorKind::Unavailable);
    let locks = away.attach(options())?;
    for _ in 0..10 {
        locks.ping().await.unwrap_err();
    }
    locks.mutex("m")?.lock().await?.release().await?.confirmed()?;
    locks.close().await?;
    // When the new caller comes, earlier ones are in a long pause, or are just trying once more.
    for is_resting in [true, false] {
        let store = Store::new();
        let locks = store.attach(options())?;
        store.faults().refuse_all();
        let mutex = locks.mutex("others")?;
        let others = tokio::spawn(async move { mutex.lock().await?.release().await?.confirmed() });
        tokio::time::sleep(OUTAGE * 5).await; // from 1.26 s to 2.54 s
        if !is_resting {
            store.faults().delay(OUTAGE / 2);
            let asking = locks.ping();
            assert!(tokio::time::timeout(OUTAGE / 5, asking).await.is_err(), "it is being opened");
        }
        let mutex = locks.mutex("m")?;
        let newcomer = tokio::spawn(async move { mutex.lock().await?.release().await?.confirmed() });
        tokio::time::sleep(OUTAGE).await;
        store.faults().heal();
        newcomer.await.expect("no panic")?;
        others.await.expect("no panic")?;
        locks.close().await?;
    }
    Ok(())
}

#[tokio::test]
async fn newcomers_by_the_thousand_have_a_breath_taken_between_two_tries() -> Done {
    let away = Away::new(OUTAGE, ErrorKind::Unavailable);
    let locks = away.attach(patient())?;
    let patient = tokio::spawn({
        let mutex = locks.mutex("patient")?;
        async move { mutex.lock().await?.release().await?.confirmed() }
    });
    let mut crowd = tokio::task::JoinSet::new();
    for n in 0.. {
        if Instant::now() > away.back_at {
            break;
        }
        let mutex = locks.mutex(&format!("m{n}"))?;
        crowd.spawn(async move { mutex.lock().await?.release().await?.confirmed() });
        if n % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    patient.await.expect("no panic")?;
    let number = crowd.len();
    while let Some(acquired) = crowd.join_next().await {
        acquired.expect("no panic")?;
    }
    let opens = away.opens.load(Ordering::Relaxed);
    assert!((2..=60).contains(&opens), "{opens} attempts to open a session by {number}"); // one in 20 ms, or a few
    locks.close().await
}

#[tokio::test]
async fn a_client_that_is_dropped_while_it_rests_keeps_nothing_and_opens_nothing() -> Done {
    let away = Away::new(Duration::from_secs(60), ErrorKind::Unavailable);
    let rest = Duration::from_secs(60);
    for _ in 0..10 {
        let options = Options::new().command_deadline(OUTAGE / 10).back_off(rest, rest);
        let locks = away.attach(options)?;
        locks.mutex("m")?.lock().await.unwrap_err();
    }
    let opens = away.opens.load(Ordering::Relaxed);
    until("nobody keeps it", async || Arc::strong_count(&away) == 1).await;
    assert_eq!(away.opens.load(Ordering::Relaxed), opens);
    Ok(())
}

#[tokio::test]
async fn an_outage_that_is_longer_than_a_command_is_told() -> Done {
    let away = Away::new(Duration::from_secs(60), ErrorKind::Unavailable);
    let locks = away.attach(Options::new().command_deadline(OUTAGE))?;
    let began = Instant::now();
    let error = locks.mutex("m")?.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the reason, not that it took too long: {error}");
    assert!((OUTAGE / 2..OUTAGE * 10).contains(&began.elapsed()), "{:?}", began.elapsed());
    let error = locks.mutex("m")?.lock_within(OUTAGE / 10).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    Ok(())
}

#[tokio::test]
async fn what_no_pause_mends_is_told_at_once() -> Done {
    let away = Away::new(OUTAGE, ErrorKind::Denied);
    let locks = away.attach(patient())?;
    assert_eq!(locks.mutex("m")?.lock().await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(away.opens.load(Ordering::Relaxed), 1);
    Ok(())
}

#[tokio::test]
async fn to_connect_is_asked_once() {
    let away = Away::new(OUTAGE, ErrorKind::Unavailable);
    let layered = Layered::new(Arc::new(Store::new()), away.clone());
    let error = tidelock_core::backend::connect(Arc::new(layered), patient()).await.unwrap_err();
    assert_eq!((error.kind(), away.opens.load(Ordering::Relaxed)), (ErrorKind::Unavailable, 1));
}
