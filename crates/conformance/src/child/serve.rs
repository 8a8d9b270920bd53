//! The child's own side.

use std::future::Future;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use tidelock_core::backend::boot_clock;
use tidelock_core::{Error, ErrorKind, Guard, Locks, Result, State};

use super::order::{Order, Word};

/// Runs a client in a process of its own: connects, and carries out the orders on standard input. The process ends
/// when that ends.
///
/// # Errors
/// If it cannot connect, or cannot start a runtime. The error is also reported on standard output.
pub fn serve_as_child(connect: impl Future<Output = Result<Arc<dyn Locks>>>) -> Result<()> {
    let orders = read_orders();
    let no_runtime = |error| Error::new(ErrorKind::Unsupported, "cannot start a runtime").because(error);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(no_runtime)?;
    let locks = runtime.block_on(connect).inspect_err(|error| say(&Word::Failed(error.to_string())))?;
    say(&Word::Ready(boot_clock().now().as_nanos()));
    let mut client = Client { locks, guard: None };
    for order in orders {
        let word = runtime.block_on(client.obey(order));
        say(&word.unwrap_or_else(|error| Word::Failed(error.to_string())));
    }
    Ok(())
}

/// The orders, as they arrive. A thread waits for them, so the end of the input is seen whatever else the process
/// waits for.
fn read_orders() -> Receiver<Order> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(std::result::Result::ok) {
            let Some(order) = Order::read(&line) else { break };
            let _ = sender.send(order); // the receiver lives as long as the process
        }
        std::process::exit(0);
    });
    receiver
}

/// The reader may be gone: then the input ends too.
fn say(word: &Word) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}

struct Client {
    locks: Arc<dyn Locks>,
    guard: Option<Guard>,
}

impl Client {
    async fn obey(&mut self, order: Order) -> Result<Word> {
        match order {
            Order::Lock(name) => {
                let guard = self.locks.mutex(&name)?.lock().await?;
                let token = guard.token().get();
                self.guard = Some(guard);
                Ok(Word::Held(token))
            }
            Order::Write if self.guard()?.state() == State::Lost => Ok(Word::Lost),
            Order::Write | Order::WriteOn => Ok(Word::Wrote(self.guard()?.token().get())),
            Order::Release => {
                if let Some(guard) = self.guard.take() {
                    guard.release().await?.confirmed()?;
                }
                Ok(Word::Done)
            }
            Order::Try { times, name } => self.be_refused(times, &name).await,
            Order::Count { times, name, file } => {
                for _ in 0..times {
                    self.count(&name, &file).await?;
                }
                Ok(Word::Done)
            }
        }
    }

    /// A few at a time, like the tasks of a busy program.
    async fn be_refused(&self, times: u64, name: &str) -> Result<Word> {
        const TASKS: u64 = 32;
        let mutex = self.locks.mutex(name)?;
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (mutex, share) = (mutex.clone(), times / TASKS + u64::from(task < times % TASKS));
            tasks.spawn(async move {
                for _ in 0..share {
                    if mutex.try_lock().await?.is_some() {
                        return Err(Error::new(ErrorKind::Conflict, "the lock was free"));
                    }
                }
                Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.map_err(|panic| Error::new(ErrorKind::Protocol, "a task panicked").because(panic))??;
        }
        Ok(Word::Done)
    }

    fn guard(&self) -> Result<&Guard> {
        self.guard.as_ref().ok_or_else(|| Error::new(ErrorKind::Conflict, "this child holds no lock"))
    }

    /// Only a lock makes this safe: a client that reads between another's read and write loses that client's count.
    async fn count(&self, name: &str, file: &str) -> Result<()> {
        let trouble =
            |error| Error::new(ErrorKind::Unavailable, format!("cannot use the file {file}")).because(error);
        let guard = self.locks.mutex(name)?.lock().await?;
        let read = std::fs::read_to_string(file).map_err(trouble)?;
        tokio::task::yield_now().await;
        let counted: u64 = read.trim().parse().unwrap_or(0);
        std::fs::write(file, (counted + 1).to_string()).map_err(trouble)?;
        guard.release().await?.confirmed()
    }
}
