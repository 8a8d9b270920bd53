//! A claim that notes another slot, because a user's transaction has the one that it had.

use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tidelock_core::backend::{Claim, Patience, Place};
use tidelock_core::{ClaimId, Kind, Name, SessionId, Weight};

use super::server::SECOND;
use super::{fresh_seed, prepared, url};
use crate::link::Row;
use crate::request::{Action, Outcome};
use crate::sql::{Namespace, counts};

const TTL: u64 = 1_000 * SECOND;
const NOON: u64 = 1_980_000_000 * SECOND;

/// A connection of somebody else, which may have a transaction open.
struct Other(MySqlConnection);

impl Other {
    async fn connects() -> Self {
        Self(MySqlConnection::connect(&url()).await.unwrap())
    }

    /// The first number of the answer, if there is one.
    async fn says(&mut self, text: &str) -> Option<u64> {
        let rows = sqlx::raw_sql(AssertSqlSafe(text.to_owned())).fetch_all(&mut self.0).await.unwrap();
        rows.last().map(|row| Row::of(row).number(0))
    }
}

/// Returns when a statement of another connection waits for this one.
async fn somebody_waits_for(connection: u64) {
    let mut operator = Other::connects().await;
    let waits = format!(
        "SELECT COUNT(*) FROM information_schema.innodb_lock_waits w \
         JOIN information_schema.innodb_trx b ON b.trx_id = w.blocking_trx_id \
         WHERE b.trx_mysql_thread_id = {connection}"
    );
    while operator.says(&waits).await == Some(0) {
        tokio::time::sleep(Duration::from_millis(20)).await; // the server renews this table ten times a second
    }
}

/// Otherwise it could come alive again beside the next holder: from the commit of the transaction that has its old slot, whoever
/// has the line finds that nobody holds.
#[tokio::test]
#[ignore = "needs a server: cargo xtask test runs it"]
async fn a_claim_notes_no_slot_while_its_line_is_locked() {
    let (server, _alone) = prepared().await;
    let seed = fresh_seed();
    let (name, namespace) = (Name::new("stock").unwrap(), format!("slots {seed:x}"));
    server.clock.set(NOON);
    let session = SessionId::from_bits(seed << 3 | 1);
    server.open(session, TTL).await;
    let client = server.client(session, TTL, &namespace);
    let id = ClaimId { session, number: 1 };
    let claim = Claim::new(id, name.clone(), Kind::Mutex, Weight::ONE, Weight::ONE);
    let join = Action::Join { claim, patience: Patience::Now, in_rows: true };
    let joined = client.gather(&name, join).await.unwrap();
    assert!(matches!(joined, Outcome::Joined(Place::Held { .. })), "{joined:?}");
    let slot = client.own_claims.slot(1).unwrap().slot;
    let (mut user, mut granter) = (Other::connects().await, Other::connects().await);
    user.says(&format!("START TRANSACTION; UPDATE tidelock_slot SET stamp = stamp + 1 WHERE slot = {slot}"))
        .await;
    let key = Namespace::of(&namespace).key(&name);
    let connection = granter.says("SELECT CONNECTION_ID()").await.unwrap();
    let locks = format!("START TRANSACTION; SELECT 1 FROM tidelock_line WHERE name = {key} FOR UPDATE");
    granter.says(&locks).await;
    let notes = || {
        let (client, name) = (client.clone(), name.clone());
        tokio::spawn(async move { client.set_slot(id, &name, slot).await })
    };
    let (mut noting, mut waits) = (notes(), std::pin::pin!(somebody_waits_for(connection)));
    loop {
        tokio::select! {
            biased;
            noted = &mut noting => match noted.unwrap() {
                Ok(slot) => panic!("{slot:?} was noted while somebody else had the line"),
                Err(_) => noting = notes(), // on a busy machine it is not seen before its time is over
            },
            () = &mut waits => break,
        }
    }
    user.says("COMMIT").await;
    let holders = format!("SELECT COUNT(*) FROM tidelock_claim c WHERE c.name = {key} AND {}", counts("c"));
    assert_eq!(granter.says(&holders).await, Some(0), "the claim has left with that transaction");
    granter.says("COMMIT").await; // after it has granted the next one
    let noted = match noting.await.unwrap() {
        Ok(noted) => noted,
        Err(_) => notes().await.unwrap().unwrap(),
    };
    assert!(noted.is_none(), "the claim came alive again: {noted:?}");
}
