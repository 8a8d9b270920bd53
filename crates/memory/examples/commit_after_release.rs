//! A lock released before the commit: the next holder reads the old value, and one of the two updates is lost.
//!
//! This happens easily: a guard inside a function whose transaction is committed by its caller, or by a framework
//! when the request ends. The steps below are in the order in which they happen.

use std::sync::Mutex;

use tidelock_memory::{Fence, Locks, Result, Token};

const START: i64 = 100;

/// A database with one row. Others see what a transaction writes once it has committed.
#[derive(Debug)]
struct Database {
    balance: Mutex<i64>,
    fence: Fence,
}

/// A transaction, with the balance as it read and changed it.
struct Transaction<'a> {
    database: &'a Database,
    balance: i64,
}

impl Database {
    fn new() -> Self {
        Self { balance: Mutex::new(START), fence: Fence::new() }
    }

    fn balance(&self) -> i64 {
        *self.balance.lock().expect("nobody panics holding it")
    }

    fn begin(&self) -> Transaction<'_> {
        Transaction { database: self, balance: self.balance() }
    }
}

impl Transaction<'_> {
    fn deposit(&mut self, amount: i64) {
        self.balance += amount;
    }

    fn commit(self) {
        *self.database.balance.lock().expect("nobody panics holding it") = self.balance;
    }

    /// As `UPDATE … SET balance = …, fence = :token WHERE fence <= :token`.
    fn commit_under(self, token: Token) -> Result<()> {
        self.database.fence.accept(token)?;
        self.commit();
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let locks = tidelock_memory::connect();

    let balance = released_before_the_commit(&*locks).await?;
    println!("released before the commit: two deposits of 10 make {balance}");
    assert_eq!(balance, START + 10, "one deposit is lost");

    let balance = released_after_the_commit(&*locks).await?;
    println!("released after the commit:  two deposits of 10 make {balance}");
    assert_eq!(balance, START + 20);

    let balance = fenced(&*locks).await?;
    println!("released too early, but fenced: the late commit is refused, and {balance} is right");
    assert_eq!(balance, START + 10);

    locks.close().await
}

async fn released_before_the_commit(locks: &dyn Locks) -> Result<i64> {
    let (database, account) = (Database::new(), locks.mutex("account:7")?);

    let guard = account.lock().await?;
    let mut ours = database.begin();
    ours.deposit(10);
    guard.release().await?; // wrong: nobody can see the deposit yet

    let guard = account.lock().await?;
    let mut theirs = database.begin(); // reads the old balance
    theirs.deposit(10);
    theirs.commit();
    guard.release().await?;

    ours.commit(); // overwrites their deposit
    Ok(database.balance())
}

async fn released_after_the_commit(locks: &dyn Locks) -> Result<i64> {
    let (database, account) = (Database::new(), locks.mutex("account:7")?);
    for _ in ["ours", "theirs"] {
        let guard = account.lock().await?;
        let mut transaction = database.begin();
        transaction.deposit(10);
        transaction.commit();
        guard.release().await?;
    }
    Ok(database.balance())
}

/// The fence turns a silent loss into an error: the refused transaction starts over.
async fn fenced(locks: &dyn Locks) -> Result<i64> {
    let (database, account) = (Database::new(), locks.mutex("account:7")?);

    let guard = account.lock().await?;
    let our_token = guard.token();
    let mut ours = database.begin();
    ours.deposit(10);
    guard.release().await?; // still wrong

    let guard = account.lock().await?;
    let mut theirs = database.begin();
    theirs.deposit(10);
    theirs.commit_under(guard.token())?;
    guard.release().await?;

    let refused = ours.commit_under(our_token);
    println!("  {}", refused.expect_err("an older token is refused"));
    Ok(database.balance())
}
