//! What a client keeps on its callers' own runtimes: connections there save two wakes of the keeper's thread.
//!
//! A runtime gets one when it sends many requests: short programs do without. It is opened in the background, and
//! until it stands, whenever it is broken, and where there is no runtime, the keeper's serves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, Id};

use crate::backend::unharmed;

/// After how many requests a runtime gets its own.
const OFTEN: u32 = 32;
/// The most runtimes that have their own.
const MOST: usize = 8;

/// Whether runtimes get connections of their own by default. Tokio cannot say whether a runtime can do I/O, and panics
/// where it cannot. That panic ends the task that tries it, and the whole program if panics abort.
pub const LOCAL_BY_DEFAULT: bool = cfg!(panic = "unwind");

/// What is kept on a runtime. Dropping it ends it.
pub trait Local: Send + Sync {
    /// Whether it can be used already.
    fn stands(&self) -> bool;

    /// Whether it is of no more use; for example because its runtime has ended.
    fn is_broken(&self) -> bool;

    /// Tells whether a task of it has panicked: its runtime does no I/O.
    fn witness(&self) -> &Witness;
}

/// The locals of one client.
#[derive(Debug)]
pub struct Locals<C> {
    keeper: Id,
    callers: Mutex<Vec<Caller<C>>>,
}

#[derive(Debug)]
struct Caller<C> {
    runtime: Id,
    asked: u32,
    local: Option<Arc<C>>,
    /// Whether the runtime cannot do I/O.
    is_unfit: bool,
}

impl<C: Local> Locals<C> {
    /// None yet. The keeper's runtime gets none.
    #[must_use]
    pub fn new(keeper: &Handle) -> Self {
        Self { keeper: keeper.id(), callers: Mutex::default() }
    }

    /// That of the calling runtime, if there is one and it stands. Otherwise `open` may be called, to begin one on
    /// that runtime in the background.
    pub fn mine(&self, open: impl FnOnce(&Handle) -> Arc<C>) -> Option<Arc<C>> {
        let here = Handle::try_current().ok()?;
        let id = here.id();
        if id == self.keeper {
            return None;
        }
        let mut callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(caller) = callers.iter_mut().find(|caller| caller.runtime == id) else {
            make_room(&mut callers);
            if callers.len() < MOST {
                callers.push(Caller { runtime: id, asked: 1, local: None, is_unfit: false });
            }
            return None;
        };
        match &caller.local {
            _ if caller.is_unfit => return None,
            Some(local) if local.witness().has_panicked() => {
                (caller.local, caller.is_unfit) = (None, true);
                drop(callers); // a tracing subscriber may use locks itself
                unharmed(|| {
                    tracing::warn!(
                        "a tokio runtime does no I/O, so its locks use Tidelock's own connection; Store::connection_for_each_runtime(false) avoids the attempt"
                    );
                });
                return None;
            }
            Some(local) if local.is_broken() => (caller.local, caller.asked) = (None, 0),
            Some(local) => return local.stands().then(|| local.clone()),
            None => caller.asked += 1,
        }
        if caller.asked >= OFTEN {
            caller.local = Some(open(&here));
        }
        None
    }

    /// All that stand, on whatever runtime.
    pub fn all(&self) -> Vec<Arc<C>> {
        let callers = self.callers.lock().unwrap_or_else(PoisonError::into_inner);
        callers.iter().filter_map(|caller| caller.local.clone()).collect()
    }
}

/// Forgets the runtimes that have ended. If there are still too many, also forgets one that has sent few requests so
/// far.
fn make_room<C: Local>(callers: &mut Vec<Caller<C>>) {
    let is_of_use = |local: &Arc<C>| !local.is_broken() || local.witness().has_panicked();
    callers.retain(|caller| caller.local.as_ref().is_none_or(is_of_use));
    if callers.len() >= MOST
        && let Some(first) = callers.iter().position(|caller| caller.local.is_none() && !caller.is_unfit)
    {
        callers.remove(first);
    }
}

/// Tells whether the task that owns its [guard](Witness::watch) has panicked.
#[derive(Clone, Debug, Default)]
pub struct Witness(Arc<AtomicBool>);

impl Witness {
    /// To be dropped by the task.
    #[must_use]
    pub fn watch(&self) -> Witnessed {
        Witnessed(self.clone())
    }

    /// Whether the task has panicked.
    #[must_use]
    pub fn has_panicked(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// Records whether it was dropped by a panic.
#[derive(Debug)]
pub struct Witnessed(Witness);

impl Drop for Witnessed {
    fn drop(&mut self) {
        self.0.0.store(std::thread::panicking(), Ordering::Release);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // all of this is a test
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Plain {
        stands: AtomicBool,
        is_broken: AtomicBool,
        witness: Witness,
    }

    impl Local for Plain {
        fn stands(&self) -> bool {
            self.stands.load(Ordering::Relaxed)
        }
        fn is_broken(&self) -> bool {
            self.is_broken.load(Ordering::Relaxed)
        }
        fn witness(&self) -> &Witness {
            &self.witness
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    fn asked(locals: &Locals<Plain>, often: u32) -> Option<Arc<Plain>> {
        (0..often).find_map(|_| locals.mine(|_| Arc::default()))
    }

    #[test]
    fn a_runtime_that_asks_often_gets_its_own_once_it_stands() {
        let (keeper, caller) = (runtime(), runtime());
        let locals = Locals::<Plain>::new(keeper.handle());
        keeper.block_on(async { assert!(asked(&locals, OFTEN * 2).is_none()) });
        caller.block_on(async {
            assert!(asked(&locals, OFTEN - 1).is_none() && locals.all().is_empty());
            assert!(asked(&locals, 1).is_none());
            let local = locals.all().pop().unwrap();
            assert!(asked(&locals, 1).is_none(), "it does not stand yet");
            local.stands.store(true, Ordering::Relaxed);
            assert!(Arc::ptr_eq(&asked(&locals, 1).unwrap(), &local));
            local.is_broken.store(true, Ordering::Relaxed);
            assert!(asked(&locals, OFTEN).is_none() && locals.all().is_empty());
        });
    }

    #[test]
    fn a_runtime_that_does_no_io_is_not_tried_again() {
        let (keeper, caller) = (runtime(), runtime());
        let locals = Locals::<Plain>::new(keeper.handle());
        caller.block_on(async {
            asked(&locals, OFTEN);
            let watched = locals.all().pop().unwrap().witness.watch();
            let panicked = tokio::spawn(async move {
                let _watched = watched;
                panic!("no I/O here");
            });
            assert!(panicked.await.is_err());
            assert!(asked(&locals, OFTEN * 3).is_none() && locals.all().is_empty());
        });
    }

    #[test]
    fn runtimes_that_have_ended_make_room() {
        let (keeper, last) = (runtime(), runtime());
        let locals = Locals::<Plain>::new(keeper.handle());
        let callers: Vec<_> = (0..MOST).map(|_| runtime()).collect();
        callers.iter().for_each(|caller| drop(caller.block_on(async { asked(&locals, OFTEN) })));
        last.block_on(async { assert!(asked(&locals, OFTEN).is_none()) });
        assert_eq!(locals.all().len(), MOST);
        locals.all()[3].is_broken.store(true, Ordering::Relaxed);
        last.block_on(async { assert!(asked(&locals, OFTEN).is_none()) });
        assert_eq!(locals.all().len(), MOST, "the last one has that place");
    }
}
