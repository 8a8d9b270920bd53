//! The fence for data in the same etcd: a condition for the user's own transaction.

use etcd_client::{Compare, CompareOp};
use tidelock_core::{ClaimId, Name, Options, Result, Token};

use crate::keys::Keys;
use crate::store::Store;

impl Store {
    /// The condition that the claim with this id and this token still stands in line: put it into the transaction that
    /// writes your data, and a holder that has lost the lock writes nothing. `options` are those of the client that
    /// holds it.
    ///
    /// Holds that a client [passes on](tidelock_core::Options::linger) have one claim, and the server cannot tell them apart:
    /// await each write before its guard is given back, or have the clients of that name at a linger of zero.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use tidelock_etcd::etcd_client::{Client, Txn, TxnOp};
    /// use tidelock_etcd::{Options, Store};
    ///
    /// let (store, options) = (Store::open("etcd://127.0.0.1")?, Options::new());
    /// let locks = store.connect(options.clone()).await?;
    /// let guard = locks.mutex("stock:42")?.lock().await?;
    ///
    /// let still_mine = store.fence(&options, "stock:42", guard.claim(), guard.token())?;
    /// let write = Txn::new().when([still_mine]).and_then([TxnOp::put("stock/42", "17", None)]);
    /// let written = Client::connect(["127.0.0.1:2379"], None).await?.txn(write).await?;
    /// assert!(written.succeeded(), "the lock is lost, and nothing was written");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`InvalidName`](crate::ErrorKind::InvalidName) for a name that no lock can have.
    pub fn fence(&self, options: &Options, name: &str, claim: ClaimId, token: Token) -> Result<Compare> {
        let keys = Keys::of(self.prefix(), &options.namespace);
        let order = i64::try_from(token.store_order()).unwrap_or(i64::MAX);
        let key = keys.claim(&Name::new(name)?, claim);
        Ok(Compare::create_revision(key, CompareOp::Equal, order).with_prefix())
    }
}
