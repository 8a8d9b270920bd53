//! The pulse of one process in a storm: a thread that looks at all holds, all the time.
//!
//! It also notices when it was not scheduled. A process that was paused, or an overloaded machine, can have the
//! effects of a fault.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tidelock_core::backend::Moment;

use super::story::Outage;
use crate::history::Recorder;

/// How often it looks.
const BEAT: Duration = Duration::from_millis(10);

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Pulse {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Pulse {
    /// Starts it. It reports each pause that it notices as an outage, and each look when it is done.
    pub(super) fn start(
        recorder: Arc<Recorder>,
        stumble: Duration,
        mut told: impl FnMut(Beat) + Send + 'static,
    ) -> std::io::Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let thread = std::thread::Builder::new().name("pulse".into()).spawn(move || {
            let mut last = recorder.now();
            while !ends.load(Ordering::Acquire) {
                let now = recorder.now();
                recorder.look();
                let stood = now.since(last);
                if stood > stumble {
                    let what = format!("a process was not scheduled for {stood:?}");
                    told(Beat::Stumbled(Outage { from: last, to: now, what }));
                }
                last = now;
                told(Beat::Looked(now));
                std::thread::sleep(BEAT);
            }
            recorder.look();
        })?;
        Ok(Self { is_over, thread: Some(thread) })
    }
}

/// What a pulse reports.
#[derive(Debug)]
pub(super) enum Beat {
    /// It looked at everything, not before this moment.
    Looked(Moment),
    Stumbled(Outage),
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // its panic has been printed
        }
    }
}

/// A pause this long may have the effects of a fault.
pub(super) fn stumble(ttl: Duration) -> Duration {
    ttl / 6
}
