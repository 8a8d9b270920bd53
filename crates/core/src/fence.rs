//! Fencing on the side of the resource.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Error, ErrorKind, Result, Token};

/// Refuses a token that is older than the newest one seen: the late write of a holder that was paused, cut off or
/// evicted, and does not know yet that it has lost the lock.
///
/// It is for exclusive holds: of a mutex, or of a read-write lock for writing. The same token is accepted again, so a
/// holder may write twice. A caller that reads, computes and then writes has to show the token at the read too.
/// Otherwise an older holder's late write can slip in between.
///
/// If the resource is a store itself, one line of it does the same:
///
/// | resource | line |
/// |----------|----------|
/// | SQL      | `UPDATE stock SET n = n - 1, fence = :token WHERE id = 42 AND fence <= :token` |
/// | Redis    | in Lua: `if tonumber(redis.call('HGET', key, 'fence') or 0) > token then return 0 end` |
/// | etcd     | a transaction that compares the fence key's value before it puts |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> tidelock::Result<()> {
/// use tidelock::Fence;
/// # let locks = tidelock::connect("memory://").await?;
/// let fence = Fence::new();
/// let mutex = locks.mutex("ledger")?;
/// let first = mutex.lock().await?;
/// let old = first.token();
/// first.release().await?;
/// let second = mutex.lock().await?;
/// fence.accept(second.token())?;
/// fence.accept(second.token())?;
/// assert!(fence.accept(old).is_err());
/// # drop(second); locks.close().await?; Ok(()) }
/// ```
#[derive(Debug, Default)]
pub struct Fence(AtomicU64);

impl Fence {
    /// A fence that has seen no token.
    #[must_use]
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// A fence that has seen `token`: one that was stored with the resource.
    #[must_use]
    pub const fn after(token: Token) -> Self {
        Self(AtomicU64::new(token.get()))
    }

    /// Accepts a token that is not older than the newest one seen.
    ///
    /// # Errors
    /// [`Lost`](ErrorKind::Lost) for an older one: its holder has lost the lock, and must not write.
    pub fn accept(&self, token: Token) -> Result<()> {
        let newest = self.0.fetch_max(token.get(), Ordering::AcqRel);
        if newest <= token.get() {
            return Ok(());
        }
        let message = format!(
            "token {token} is older than {newest}, which this resource has seen: the lock has a newer holder; do not write"
        );
        Err(Error::new(ErrorKind::Lost, message))
    }
}
