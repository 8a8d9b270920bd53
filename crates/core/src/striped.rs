//! One hot name spread over n stripes.
//!
//! By key: a key always gets the same stripe, so different keys seldom wait for each other. By any free stripe: this
//! is for stock that is split over n counters, where a piece may come from any of them. A stripe that is sold out is
//! marked, and no caller of this client tries it again.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::{Error, ErrorKind, Guard, Locks, Mutex, Released, Result, random, shield};

/// More stripes than this are a mistake.
const MOST_STRIPES: usize = 1 << 16;

/// n mutexes named `name#0` to `name#n-1`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::Striped;
/// # let locks = tidelock::connect("memory://").await?;
/// let stock = Striped::new(&*locks, "stock:42", 8)?;
/// let mut left = [3_u32; 8]; // one counter a stripe
/// while let Some(stripe) = stock.any().await? {
///     left[stripe.index()] -= 1;
///     if left[stripe.index()] == 0 {
///         stock.mark_empty(stripe.index());
///     }
///     stripe.release().await?;
/// }
/// assert_eq!(left, [0; 8]);
/// locks.close().await?;
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Striped {
    stripes: Vec<Stripe>,
    /// Where the next call of `any` begins. The first call begins at a random stripe, so that processes spread.
    next: AtomicUsize,
}

#[derive(Debug)]
struct Stripe {
    mutex: Arc<dyn Mutex>,
    empty: AtomicBool,
    emptied: Notify,
}

impl Stripe {
    fn new(mutex: Arc<dyn Mutex>) -> Self {
        Self { mutex, empty: AtomicBool::new(false), emptied: Notify::new() }
    }

    fn is_empty(&self) -> bool {
        self.empty.load(Ordering::Acquire)
    }
}

impl Striped {
    /// Spreads `name` over `stripes` mutexes. All processes must use the same number.
    ///
    /// # Errors
    /// [`InvalidName`](ErrorKind::InvalidName); [`InvalidOption`](ErrorKind::InvalidOption) for no stripes, or more than
    /// 65 536.
    pub fn new(locks: &dyn Locks, name: &str, stripes: usize) -> Result<Self> {
        if !(1..=MOST_STRIPES).contains(&stripes) {
            let wrong = format!("a striped lock has 1 to {MOST_STRIPES} stripes, not {stripes}");
            return Err(Error::new(ErrorKind::InvalidOption, wrong));
        }
        let stripe = |index| locks.mutex(&format!("{name}#{index}")).map(Stripe::new);
        let stripes = (0..stripes).map(stripe).collect::<Result<_>>()?;
        Ok(Self { stripes, next: AtomicUsize::new(anywhere()) })
    }

    /// The stripe of a key. It is the same in every process.
    #[must_use]
    pub fn index_of(&self, key: &[u8]) -> usize {
        let hash = fnv1a(key);
        usize::try_from(hash % self.stripes.len() as u64).unwrap_or(0)
    }

    /// Waits its turn on the stripe of `key`.
    ///
    /// # Errors
    /// As for [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`].
    pub async fn by_key(&self, key: &[u8]) -> Result<StripeGuard> {
        self.lock(self.index_of(key)).await
    }

    /// Takes a free stripe; if none is free, waits its turn on one. `None` if all are marked empty.
    ///
    /// # Errors
    /// As for [`Mutex::lock`].
    ///
    /// # Cancel safety
    /// As for [`Mutex::lock`].
    pub async fn any(&self) -> Result<Option<StripeGuard>> {
        loop {
            let filled = self.filled();
            let Some(&first) = filled.first() else {
                return Ok(None);
            };
            for &index in &filled {
                if let Some(guard) = self.stripes[index].mutex.try_lock().await?
                    && let Some(taken) = self.unless_empty(StripeGuard { guard, index }).await
                {
                    return Ok(Some(taken));
                }
            }
            if let Some(waited_for) = self.lock_until_empty(first).await?
                && let Some(taken) = self.unless_empty(waited_for).await
            {
                return Ok(Some(taken));
            }
        }
    }

    /// Another caller may have emptied the stripe before this one got it. Then nobody has worked under this guard, and
    /// whether it was lost does not matter.
    async fn unless_empty(&self, taken: StripeGuard) -> Option<StripeGuard> {
        if !self.stripes[taken.index].is_empty() {
            return Some(taken);
        }
        let _ = taken.release().await;
        None
    }

    /// Marks the stripe as empty: no caller of this client tries it again. Callers of [any](Striped::any) that wait
    /// for it move on to the other stripes.
    pub fn mark_empty(&self, index: usize) {
        if let Some(stripe) = self.stripes.get(index) {
            stripe.empty.store(true, Ordering::Release);
            stripe.emptied.notify_waiters();
        }
    }

    /// Marks the stripe as worth trying again.
    pub fn mark_filled(&self, index: usize) {
        if let Some(stripe) = self.stripes.get(index) {
            stripe.empty.store(false, Ordering::Release);
        }
    }

    async fn lock(&self, index: usize) -> Result<StripeGuard> {
        Ok(StripeGuard { guard: self.stripes[index].mutex.lock().await?, index })
    }

    /// Waits its turn on a stripe, until the stripe is marked empty.
    async fn lock_until_empty(&self, index: usize) -> Result<Option<StripeGuard>> {
        let stripe = &self.stripes[index];
        let emptied = stripe.emptied.notified(); // listens from now on
        if stripe.is_empty() {
            return Ok(None);
        }
        tokio::select! {
            biased;
            held = self.lock(index) => held.map(Some),
            () = shield::around(emptied) => Ok(None),
        }
    }

    /// The stripes that are worth trying. Each call begins at another one, so that a crowd spreads.
    fn filled(&self) -> Vec<usize> {
        let (all, start) = (self.stripes.len(), self.next.fetch_add(1, Ordering::Relaxed));
        let rotated = (0..all).map(|offset| (start.wrapping_add(offset)) % all);
        rotated.filter(|&index| !self.stripes[index].is_empty()).collect()
    }
}

/// A guard of one stripe.
#[derive(Debug)]
#[must_use = "the stripe is given back as soon as the guard is dropped; bind it to a variable"]
pub struct StripeGuard {
    guard: Guard,
    index: usize,
}

impl StripeGuard {
    /// The index of the stripe.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// See [`Guard::release`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Cancel safety
    /// The lock is given back in any case.
    pub async fn release(self) -> Result<Released> {
        self.guard.release().await
    }
}

impl Deref for StripeGuard {
    type Target = Guard;
    fn deref(&self) -> &Guard {
        &self.guard
    }
}

/// Where this process begins. It is random: otherwise all processes would want the same stripe first.
fn anywhere() -> usize {
    random::number().map_or(0, |random| random as usize)
}

/// A hash that is the same in every process and version.
fn fnv1a(key: &[u8]) -> u64 {
    key.iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
