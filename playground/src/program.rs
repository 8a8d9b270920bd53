//! The program of a client: a short listing to read, and the same as steps to run.
//!
//! Each step belongs to a line of the listing, which is where the program counter stands. A program is made of three
//! parts: how the policy gets the lock, what is done under it, and how the policy gives it back.

use crate::policy::Policy;
use crate::settings::{Settings, Work};

/// One request to a server or to the resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Stand in the line; the number is the slot of the client's lock.
    Join(u8),
    /// Leave the line.
    Leave(u8),
    /// Ask how one's claims stand.
    Look,
    /// Renew the session, or the key.
    Renew,
    /// `SET NX PX` on this server.
    SetTtl(u8),
    /// `SET NX` without a ttl.
    Set,
    /// `SET NX PX`, whose reply is not looked at.
    SetUnread,
    /// `EXPIRE`.
    Expire,
    /// `GET`.
    Get,
    /// `DEL`, whatever the key says.
    Del,
    /// The script that compares and deletes, on this server.
    DelMine(u8),
    /// Enter as a reader beside other readers.
    Share,
    /// Read the stock.
    Read,
    /// Write what was computed from the read.
    Write,
    /// Write if the version is still the one that was read.
    WriteIf,
    /// Take one, if there is one, in one step.
    Decrement,
    /// Sit down.
    Enter,
    /// Get up.
    Exit,
    /// Write a new value to the database.
    SetDatabase,
    /// Write the same value to the cache.
    SetCache,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Do {
    /// Wait for the next customer.
    Rest,
    /// Compute for a while.
    Think,
    /// Send this request and wait for its reply.
    Call(Op),
    /// Delete only if the reply to `GET` named this client.
    DelIfRead,
    /// Count the votes of the masters.
    Majority,
    /// Take a lock again that this owner has.
    Again,
    /// The round is over.
    Next,
}

/// The listing and the steps.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// What is shown.
    pub lines: Vec<&'static str>,
    /// What is run: the line of each step, from 0, and the step.
    pub steps: Vec<(u8, Do)>,
    /// Where a client goes on that has nothing to do, or has lost its lock: giving back.
    pub give_back: usize,
    /// Where a client goes on that must try again.
    pub retry: usize,
}

impl Program {
    /// The program of every client with these settings; a reader's differs from a writer's.
    #[must_use]
    pub fn of(settings: &Settings, reads_only: bool) -> Self {
        let mut program = Self::default();
        program.line("loop {").step(Do::Rest);
        program.retry = program.steps.len();
        program.take(settings.policy, reads_only);
        if has_watchdog(settings) {
            program.line("  let dog = watchdog(KEY, TTL); // renews");
        }
        program.work(settings, reads_only);
        program.give_back = program.steps.len();
        program.give_back(settings, reads_only);
        program.line("}").step(Do::Next);
        program
    }

    /// The listing as one text.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.iter().flat_map(|line| [line, "\n"]).collect()
    }

    fn line(&mut self, text: &'static str) -> &mut Self {
        self.lines.push(text);
        self
    }

    fn step(&mut self, what: Do) -> &mut Self {
        self.steps.push((self.lines.len() as u8 - 1, what));
        self
    }

    fn call(&mut self, op: Op) -> &mut Self {
        self.step(Do::Call(op))
    }

    fn take(&mut self, policy: Policy, reads_only: bool) {
        match policy {
            Policy::Nothing | Policy::Version | Policy::Atomic => {}
            Policy::Line | Policy::Cohort | Policy::EarlyRelease => {
                let text = if reads_only {
                    "  let guard = lock.read().await?;"
                } else {
                    "  let guard = lock.lock().await?;"
                };
                self.line(text).call(Op::Join(0));
            }
            Policy::Reentrant => {
                self.line("  let outer = owner.lock().await?;").call(Op::Join(0));
                self.line("  let inner = owner.lock().await?; // again").step(Do::Again);
            }
            Policy::Nested => {
                self.line("  let outer = lock.lock().await?;").call(Op::Join(0));
                self.line("  let inner = lock.lock().await?; // again").call(Op::Join(1));
            }
            Policy::TwoUnsorted => {
                self.line("  let from = locks.mutex(from)?.lock().await?;").call(Op::Join(0));
                self.line("  let to = locks.mutex(to)?.lock().await?;").call(Op::Join(1));
            }
            Policy::TwoSorted => {
                self.line("  let both = lock_all([from, to]).await?;").call(Op::Join(0)).call(Op::Join(1));
            }
            Policy::SetNx | Policy::ReadThenDelete | Policy::BlindDelete => {
                self.line("  while !redis.set_nx_px(KEY, me, TTL)? {");
                self.call(Op::SetTtl(0)).line("    sleep(POLL); }");
            }
            Policy::NoTtl => {
                self.line("  while !redis.set_nx(KEY, me)? {").call(Op::Set).line("    sleep(POLL); }");
            }
            Policy::SetThenExpire => {
                self.line("  while !redis.set_nx(KEY, me)? {").call(Op::Set).line("    sleep(POLL); }");
                self.line("  redis.expire(KEY, TTL)?;").call(Op::Expire);
            }
            Policy::ThreadId => {
                self.line("  let me = thread::current().id(); // 1");
                self.line("  while !redis.set_nx_px(KEY, me, TTL)?").call(Op::SetTtl(0));
                self.line("    && redis.get(KEY)? != me { // re-entrant").line("    sleep(POLL); }");
            }
            Policy::Unread => {
                self.line("  redis.set_nx_px(KEY, me, TTL)?; // got it?").call(Op::SetUnread);
            }
            Policy::Redlock => {
                self.line("  a.set_nx_px(KEY, me, TTL);").call(Op::SetTtl(0));
                self.line("  b.set_nx_px(KEY, me, TTL);").call(Op::SetTtl(1));
                self.line("  c.set_nx_px(KEY, me, TTL);").call(Op::SetTtl(2));
                self.line("  if votes < 2 { undo, sleep, try again }").step(Do::Majority);
            }
            Policy::Herd => {
                self.line("  while !zk.create_ephemeral(NODE)? {");
                self.call(Op::SetTtl(0)).line("    zk.wait_until_deleted(NODE)?; }");
            }
            Policy::Unfair => {
                self.line("  while !redis.set_nx_px(KEY, me, TTL)? {");
                self.call(Op::SetTtl(0)).line("    wait_for_a_message(); }");
            }
            Policy::ReadersFirst if reads_only => {
                self.line("  while !redis.add_reader(KEY, me)? {").call(Op::Share).line("    sleep(POLL); }");
            }
            Policy::ReadersFirst => {
                self.line("  while !redis.set_if_nobody(KEY, me)? {");
                self.call(Op::SetTtl(0)).line("    sleep(POLL); }");
            }
        }
    }

    fn work(&mut self, settings: &Settings, reads_only: bool) {
        match (settings.work, settings.policy) {
            (Work::Sale, Policy::Atomic) => {
                self.line("  // UPDATE stock SET n = n - 1 WHERE n > 0");
                self.line("  if db.decrement()? == 0 { break }").call(Op::Decrement);
            }
            (Work::Sale, Policy::Version) => {
                self.line("  let (n, v) = db.read()?;").call(Op::Read).line("  if n == 0 { break }");
                self.line("  // … talk to the customer …").step(Do::Think);
                self.line("  if !db.write_if(v, n - 1)? { retry }").call(Op::WriteIf);
            }
            (Work::Sale, policy) => {
                let is_fenced = settings.fence > 0 && policy.has_line();
                let read = match (is_fenced, settings.fence) {
                    (true, 2) => "  let n = db.read(guard.token())?;",
                    _ => "  let n = db.read()?;",
                };
                self.line(read).call(Op::Read).line("  if n == 0 { break }");
                self.line("  // … talk to the customer …").step(Do::Think);
                match policy {
                    Policy::EarlyRelease => {
                        self.line("  tx.update(n - 1)?; // not committed yet");
                    }
                    _ if is_fenced => {
                        self.line("  db.write(n - 1, guard.token())?;").call(Op::Write);
                    }
                    _ => {
                        self.line("  db.write(n - 1)?; // one order").call(Op::Write);
                    }
                }
            }
            (Work::Pages, _) if reads_only => {
                self.line("  let page = db.read()?;").call(Op::Read);
                self.line("  // … show it …").step(Do::Think);
            }
            (Work::Pages, _) => {
                self.line("  let page = db.read()?;").call(Op::Read);
                self.line("  // … edit it …").step(Do::Think);
                self.line("  db.write(page)?;").call(Op::Write);
            }
            (Work::Seats, _) => {
                self.line("  counter.sit_down()?;").call(Op::Enter);
                self.line("  // … buy a ticket …").step(Do::Think);
                self.line("  counter.get_up()?;").call(Op::Exit);
            }
            (Work::Cache, _) => {
                self.line("  db.set(value)?;").call(Op::SetDatabase);
                self.line("  // … a little later …").step(Do::Think);
                self.line("  cache.set(value)?;").call(Op::SetCache);
            }
        }
    }

    fn give_back(&mut self, settings: &Settings, reads_only: bool) {
        if has_watchdog(settings) {
            self.line("  dog.stop();");
        }
        match settings.policy {
            Policy::Nothing | Policy::Version | Policy::Atomic => {}
            Policy::Line | Policy::Cohort | Policy::Reentrant => {
                self.line("  guard.release().await?;").call(Op::Leave(0));
            }
            Policy::Nested => {
                self.line("  drop((inner, outer));").call(Op::Leave(1)).call(Op::Leave(0));
            }
            Policy::EarlyRelease => {
                self.line("  guard.release().await?;").call(Op::Leave(0));
                self.line("  tx.commit()?; // others see it now").call(Op::Write);
            }
            Policy::TwoUnsorted | Policy::TwoSorted => {
                self.line("  drop(both);").call(Op::Leave(1)).call(Op::Leave(0));
            }
            Policy::ReadThenDelete => {
                self.line("  if redis.get(KEY)? == me {").call(Op::Get);
                self.line("    redis.del(KEY)?; }").step(Do::DelIfRead);
            }
            Policy::BlindDelete => {
                self.line("  redis.del(KEY)?; // whose is it?").call(Op::Del);
            }
            Policy::Redlock => {
                self.line("  a, b, c: delete if it is mine");
                self.call(Op::DelMine(0)).call(Op::DelMine(1)).call(Op::DelMine(2));
            }
            Policy::Herd => {
                self.line("  zk.delete(NODE)?;").call(Op::DelMine(0));
            }
            Policy::ReadersFirst if reads_only => {
                self.line("  redis.remove_reader(KEY, me)?;").call(Op::DelMine(0));
            }
            Policy::Unread => {
                self.line("  redis.del(KEY)?;").call(Op::Del);
            }
            _ => {
                self.line("  redis.eval(DELETE_IF_MINE, KEY, me)?;").call(Op::DelMine(0));
            }
        }
    }
}

/// Whether a program renews its key by itself. Tidelock's guard does so inside, and a node lives with its session.
const fn has_watchdog(settings: &Settings) -> bool {
    let renews = !matches!(
        settings.policy,
        Policy::Nothing | Policy::Version | Policy::Atomic | Policy::NoTtl | Policy::Redlock | Policy::Herd
    );
    settings.renew && renews && !settings.policy.has_line()
}

impl Op {
    /// Its number in an event.
    #[must_use]
    pub const fn code(self) -> u32 {
        match self {
            Self::Join(_) => 0,
            Self::Leave(_) => 1,
            Self::Look => 2,
            Self::Renew => 3,
            Self::SetTtl(_) => 4,
            Self::Set => 5,
            Self::SetUnread => 6,
            Self::Expire => 7,
            Self::Get => 8,
            Self::Del => 9,
            Self::DelMine(_) => 10,
            Self::Share => 11,
            Self::Read => 12,
            Self::Write => 13,
            Self::WriteIf => 14,
            Self::Decrement => 15,
            Self::Enter => 16,
            Self::Exit => 17,
            Self::SetDatabase => 18,
            Self::SetCache => 19,
        }
    }

    /// The server to which it goes; `None`: to the resource.
    #[must_use]
    pub const fn server(self) -> Option<u8> {
        match self {
            Self::SetTtl(server) | Self::DelMine(server) => Some(server),
            Self::Read
            | Self::Write
            | Self::WriteIf
            | Self::Decrement
            | Self::Enter
            | Self::Exit
            | Self::SetDatabase
            | Self::SetCache => None,
            _ => Some(0),
        }
    }
}
