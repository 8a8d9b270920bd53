//! The lessons: a ladder in which each rung mends the last bug and bares the next, and some questions beside it.
//!
//! A lesson is a link, a question that is asked before it runs, and what its run must come to. The texts name no number
//! that the run does not say itself: `{sold}` and the like are filled in from its figures, and a test checks each claim.

use crate::run::{Figures, Run};
use crate::settings::Settings;

/// One lesson.
#[derive(Clone, Copy, Debug)]
pub struct Lesson {
    /// Its word in an address.
    pub id: &'static str,
    /// What it is called.
    pub title: &'static str,
    /// What is to be done.
    pub goal: &'static str,
    /// The question before it runs.
    pub ask: &'static str,
    /// The answers.
    pub answers: [&'static str; 2],
    /// Which of them is right.
    pub right: u8,
    /// The settings of its run.
    pub link: &'static str,
    /// The settings of a run beside it, in the same seed; or empty.
    pub beside: &'static str,
    /// What happened, and why.
    pub told: &'static str,
    /// The button that leads to the next lesson.
    pub next: &'static str,
    /// What its run must come to: its figures, and those of the run beside it.
    pub holds: fn(&Figures, &Figures) -> bool,
}

const YES_NO: [&str; 2] = ["Yes", "No"];

/// All lessons, in order.
pub const LESSONS: &[Lesson] = &[
    Lesson {
        id: "race",
        title: "The inventory race",
        goal: "Two processes sell the last ten items. Each reads the stock, talks to its customer, and writes one less.",
        ask: "Will they sell more than there is?",
        answers: YES_NO,
        right: 0,
        link: "v1;seed=2;hold=40;gap=300;latency=15",
        beside: "",
        told: "{sold} sold of {stock}. Both read the same number, and both wrote one less: the second write undid the first. Between a read and the write that depends on it, nobody else may write.",
        next: "Put a lock on it",
        holds: |it, _| it.sold == 11 && it.stock == 10 && it.wrong == 1,
    },
    Lesson {
        id: "locked",
        title: "A lock: SET NX",
        goal: "The same two processes. Now each sets a key first, if there is none, and deletes it when it is done.",
        ask: "Is this right?",
        answers: ["It sells ten", "It sells too many"],
        right: 0,
        link: "v1;policy=nottl;seed=2;hold=40;gap=300;latency=15",
        beside: "",
        told: "{sold} sold of {stock}. As long as nothing goes wrong, any lock does. The rest of this ladder is about what goes wrong.",
        next: "Kill the process that holds it",
        holds: |it, _| it.sold == 10 && it.wrong == 0 && it.overlaps == 0,
    },
    Lesson {
        id: "forgotten",
        title: "The holder dies",
        goal: "Three processes. One of them dies while it holds the lock, and its key has no ttl.",
        ask: "When do the others get on?",
        answers: ["After a while", "Never"],
        right: 1,
        link: "v1;policy=nottl;clients=3;seed=2;hold=120;gap=150;latency=15;end=8000;do=860.kill.0.0",
        beside: "",
        told: "{waiting} wait for a key that nobody will ever delete. A lock must end by itself: it needs a lease.",
        next: "Give the key a ttl",
        holds: |it, _| it.waiting == 2 && it.sold < 10,
    },
    Lesson {
        id: "halfway",
        title: "SETNX, then EXPIRE",
        goal: "The key gets its ttl by a second command. The process dies between the two.",
        ask: "Does the ttl help?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=expire;clients=3;seed=2;hold=120;gap=150;latency=15;end=8000;do=420.kill.0.0",
        beside: "",
        told: "{waiting} wait for ever. The key was set, and its ttl was not: two commands are two moments, and a crash fits between them. SET KEY value NX PX ttl is one command.",
        next: "Use one command",
        holds: |it, _| it.waiting == 2 && it.sold < 10,
    },
    Lesson {
        id: "blind",
        title: "Deleting someone else's lock",
        goal: "SET NX PX now. One holder is slow: its lease ends, another takes the lock, and then the slow one comes to its DEL.",
        ask: "Whose lock does it delete?",
        answers: ["Its own", "The other's"],
        right: 1,
        link: "v1;policy=blinddel;clients=4;seed=2;hold=120;gap=150;latency=15;renew=0;ttl=700;do=1260.pause.0.900",
        beside: "",
        told: "{sold} sold of {stock}. A DEL deletes the key, whatever it says. So a third one got in while the second was working, and {overlaps} times two held at once.",
        next: "Look before you delete",
        holds: |it, _| it.sold > 10 && it.overlaps > 1,
    },
    Lesson {
        id: "look-first",
        title: "GET, compare, DEL",
        goal: "Each process looks whether the key is its own before it deletes it. One stands still between the two.",
        ask: "Is it safe now?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=readdel;clients=4;seed=2;hold=120;gap=150;latency=15;renew=0;ttl=700;do=860.pause.0.900",
        beside: "",
        told: "{sold} sold of {stock}. It was its own key when it looked. A lock that is checked in one moment and deleted in another is not checked. A script compares and deletes in one.",
        next: "Delete in a script, and pause the holder",
        holds: |it, _| it.sold > 10 && it.wrong > 0,
    },
    Lesson {
        id: "pause",
        title: "The holder pauses past its lease",
        goal: "SET NX PX, a script that compares and deletes, and a watchdog that renews: what most libraries do. The holder's whole process stands still for three seconds.",
        ask: "Does the lock protect the stock?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=setnx;clients=3;seed=2;hold=120;gap=150;latency=15;do=900.pause.0.3000",
        beside: "",
        told: "{sold} sold of {stock}. The lease ended during the pause, rightly; and when the process went on, its write was already decided. No lock can stop that write. Only the stock itself can refuse it.",
        next: "Number the grants: Tidelock with a fence",
        holds: |it, _| it.sold > 10 && it.wrong > 0 && it.overlaps > 0,
    },
    Lesson {
        id: "fenced",
        title: "The fence refuses the old holder",
        goal: "Tidelock's line. Every grant has a token greater than the last, and the stock refuses a token older than the newest that it has seen. The same pause.",
        ask: "What becomes of the late write?",
        answers: ["It is refused", "It is accepted"],
        right: 0,
        link: "v1;policy=line;clients=3;seed=2;hold=120;gap=150;latency=15;do=560.pause.0.3000",
        beside: "",
        told: "{sold} sold of {stock}, and {refused} write refused: its token was older. Two believed that they held, and nothing came of it.",
        next: "Turn the fence off",
        holds: |it, _| it.sold == 10 && it.wrong == 0 && it.refused == 1,
    },
    Lesson {
        id: "unfenced",
        title: "The same, without a fence",
        goal: "Tidelock again, the same pause, and a stock that does not look at tokens.",
        ask: "Is Tidelock's lock enough by itself?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=line;clients=3;seed=2;fence=0;hold=120;gap=150;latency=15;do=560.pause.0.3000",
        beside: "",
        told: "{sold} sold of {stock}: {wrong} lost updates. A holder can be stopped at any moment, for any time. Without a fence a lock makes the conflict rare, not impossible. Nobody's lock can do more.",
        next: "Check the token at the write alone?",
        holds: |it, _| it.sold > 10 && it.wrong > 0 && it.refused == 0,
    },
    Lesson {
        id: "half-fence",
        title: "Half a fence",
        goal: "The stock checks tokens of writes, and not of reads. Seven operations in an order that the search has found.",
        ask: "Does a fence at the write do?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=line;clients=2;rounds=1;fence=1;steps=s0s0p0s1s1s0s1",
        beside: "",
        told: "{wrong} lost update. The new holder had read, but had shown its token to nobody, so the old one's write passed. Show the token at the read, too.",
        next: "A job that is longer than its lease",
        holds: |it, _| it.wrong == 1 && it.refused == 0,
    },
    Lesson {
        id: "watchdog",
        title: "The watchdog saves a long job",
        goal: "The work takes five seconds, the lease two. Above, the lease is renewed while the process lives; below, it is not.",
        ask: "Do both sell correctly?",
        answers: ["Only the one that renews", "Both"],
        right: 0,
        link: "v1;policy=setnx;hold=5000;stock=3;end=25000",
        beside: "v1;policy=setnx;hold=5000;stock=3;end=25000;renew=0",
        told: "With renewal: {sold} sold of {stock}. Without: {sold2}, and {wrong2} lost updates. A lease should be short, so that a dead holder costs little, and renewed, so that a living one is not hurried.",
        next: "And if the process dies?",
        holds: |it, beside| it.sold == 3 && it.wrong == 0 && beside.wrong > 0,
    },
    Lesson {
        id: "watchdog-dies",
        title: "The watchdog dies with its process",
        goal: "A watchdog that renews for ever would hold a dead process's lock for ever. Here it lives in the process, which is killed.",
        ask: "How long do the others wait?",
        answers: ["One ttl", "For ever"],
        right: 0,
        link: "v1;policy=line;clients=3;seed=2;hold=120;gap=150;latency=15;do=1300.kill.0.0",
        beside: "",
        told: "The longest wait was {max} ms; the ttl is 2000 ms. All {sold} were sold.",
        next: "Now the server fails",
        holds: |it, _| it.sold == 10 && it.max_wait > 1000 && it.max_wait < 2500,
    },
    Lesson {
        id: "failover",
        title: "A failover loses the lock",
        goal: "A replica takes over that has missed the newest write: the grant. Above SET NX, below Tidelock with a fence.",
        ask: "Do two processes hold at once?",
        answers: YES_NO,
        right: 0,
        link: "v1;policy=setnx;clients=3;seed=2;hold=120;gap=150;latency=15;do=160.failover.0.0",
        beside: "v1;policy=line;clients=3;seed=2;hold=120;gap=150;latency=15;do=160.failover.0.0",
        told: "In both, two held at once: what was never copied is gone. SET NX sold {sold}. Tidelock's tokens go on growing on the new master, so the fence refused {refused2} write, and {sold2} were sold.",
        next: "Three masters instead of one?",
        holds: |it, beside| it.wrong > 0 && it.overlaps > 0 && beside.overlaps > 0 && beside.wrong == 0 && beside.refused > 0,
    },
    Lesson {
        id: "redlock",
        title: "Redlock and a jump of the clock",
        goal: "The lock is held when two of three masters agree. Two masters' clocks are corrected forward by three seconds.",
        ask: "Does the majority help?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=redlock;clients=3;seed=2;hold=120;gap=150;latency=15;do=160.jump.0.3000,160.jump.1.3000",
        beside: "",
        told: "{sold} sold of {stock}. A ttl is a promise about clocks. Redlock needs every master's clock to be right, and gives no token with which the stock could help itself.",
        next: "A master restarts",
        holds: |it, _| it.sold > 10 && it.wrong > 0 && it.overlaps > 0,
    },
    Lesson {
        id: "redlock-restart",
        title: "Redlock and a restarted master",
        goal: "One of three masters restarts with nothing on its disk, while two processes are after the lock.",
        ask: "Can one restart give the lock away?",
        answers: YES_NO,
        right: 0,
        link: "v1;policy=redlock;clients=3;seed=2;hold=120;gap=150;latency=15;do=1400.restart.0.0",
        beside: "",
        told: "{sold} sold of {stock}. The holder had two votes; one of them was forgotten, and with the third master another process had two, too. A failover of that master does the same.",
        next: "Now a crowd",
        holds: |it, _| it.sold > 10 && it.overlaps > 0,
    },
    Lesson {
        id: "herd",
        title: "The herd and the line",
        goal: "Thirty processes, a hundred items. Above, all watch one node, and all wake when it goes. Below, a line: each is told when its turn comes.",
        ask: "How many messages does one hand-off cost?",
        answers: ["About the same", "Far fewer in the line"],
        right: 1,
        link: "v1;policy=herd;clients=30;stock=100;end=40000",
        beside: "v1;policy=line;clients=30;stock=100;end=40000",
        told: "Messages for each time the lock was taken: {per} in the herd, {per2} in the line. The longest wait: {max} ms and {max2} ms. In the herd the luckiest is next.",
        next: "Readers and a writer",
        holds: |it, beside| it.messages > 2 * beside.messages && it.max_wait > 2 * beside.max_wait,
    },
    Lesson {
        id: "starving",
        title: "Readers starve a writer",
        goal: "Five readers that overlap, and one writer, c1. Above, readers get in whenever readers hold. Below, Tidelock's line.",
        ask: "Does the writer get its turn above?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=readers;work=pages;clients=6;hold=400;gap=100",
        beside: "v1;policy=line;work=pages;clients=6;hold=400;gap=100",
        told: "Readers first: the writer waited {max} ms, and the run was over. In the line nobody waited longer than {max2} ms: who comes later does not pass who waits.",
        next: "Who fairly wakes up?",
        holds: |it, beside| it.max_wait > 5000 && beside.max_wait < 1500,
    },
    Lesson {
        id: "unfair",
        title: "A wake-up by chance",
        goal: "Thirty processes. Above, a release wakes one waiter by chance, and a newcomer may be quicker. Below, the line.",
        ask: "Which has the longer longest wait?",
        answers: ["By chance", "The line"],
        right: 0,
        link: "v1;policy=unfair;clients=30;stock=100;end=40000",
        beside: "v1;policy=line;clients=30;stock=100;end=40000",
        told: "The longest wait: {max} ms by chance, {max2} ms in the line. The mean is the same work; the tail is what your users tell you about.",
        next: "Lock twice in one task",
        holds: |it, beside| it.max_wait > 2 * beside.max_wait,
    },
    Lesson {
        id: "nested",
        title: "A re-entrant owner",
        goal: "A task locks, and calls a function that locks the same name. Above with a plain mutex, below with a re-entrant owner.",
        ask: "Does the plain mutex let it in?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=nested;clients=3;end=6000",
        beside: "v1;policy=reentrant;clients=3;end=6000",
        told: "Plain: {sold} sold, and {waiting} wait, one of them for itself. Re-entrant: {sold2} sold. A mutex does not know who asks; an owner does.",
        next: "Two locks",
        holds: |it, beside| it.sold == 0 && it.waiting == 3 && beside.sold == 10,
    },
    Lesson {
        id: "two-locks",
        title: "Two locks in two orders",
        goal: "A transfer needs two locks. Above, each process takes them in the order in which they were named; below by lock_all, which sorts.",
        ask: "What happens above?",
        answers: ["Nothing special", "A deadlock"],
        right: 1,
        link: "v1;policy=unsorted;clients=3",
        beside: "v1;policy=sorted;clients=3",
        told: "Above, c1 has one and waits for the other, c2 has the other and waits for the one: {sold} sold. Sorted: {sold2}. And with leases the deadlock never even ends by itself, because both renew.",
        next: "Where the transaction ends",
        holds: |it, beside| it.sold < 10 && it.waiting == 3 && beside.sold == 10,
    },
    Lesson {
        id: "commit",
        title: "The lock let go before the commit",
        goal: "The guard is released at the end of the function; the framework commits the transaction after it.",
        ask: "Is that late commit harmless?",
        answers: YES_NO,
        right: 1,
        link: "v1;policy=early;seed=2;hold=120;gap=150;latency=15",
        beside: "v1;policy=line;seed=2;hold=120;gap=150;latency=15",
        told: "{sold} sold of {stock}: the next holder read before the commit. Released after the commit: {sold2}. The lock must be outside the transaction.",
        next: "A hot key",
        holds: |it, beside| it.sold > 10 && it.wrong > 0 && beside.sold == 10,
    },
    Lesson {
        id: "segments",
        title: "Eight locks for a hot key",
        goal: "Sixteen processes, eighty items. Above one lock; below the stock is divided into eight segments, each with a lock of its own.",
        ask: "How much sooner is it sold out below?",
        answers: ["A little", "About seven times"],
        right: 1,
        link: "v1;policy=line;clients=16;stock=80;end=30000",
        beside: "v1;policy=line;clients=16;stock=80;end=30000;segments=8",
        told: "Both sold {sold}. The longest wait: {max} ms with one lock, {max2} ms with eight. A lock makes what it protects sequential, so protect less.",
        next: "No lock at all",
        holds: |it, beside| it.sold == 80 && beside.sold == 80 && it.max_wait > 5 * beside.max_wait,
    },
    Lesson {
        id: "atomic",
        title: "Do you need a lock at all?",
        goal: "UPDATE stock SET n = n - 1 WHERE n > 0: the read and the write are one step. Below, the line.",
        ask: "Which is better here?",
        answers: ["The one step", "The lock"],
        right: 0,
        link: "v1;policy=atomic;clients=3;seed=2;hold=120;gap=150;latency=15",
        beside: "v1;policy=line;clients=3;seed=2;hold=120;gap=150;latency=15",
        told: "{sold} sold of {stock} with {messages} messages; the lock needed {messages2}. What fits in one atomic step needs no lock. A lock is for what does not.",
        next: "Or a version?",
        holds: |it, beside| it.sold == 10 && it.wrong == 0 && it.messages * 2 < beside.messages,
    },
    Lesson {
        id: "version",
        title: "A version instead of a lock",
        goal: "Each write says which version it was computed from, and is refused if there is a newer one. Twenty processes.",
        ask: "Is it correct?",
        answers: YES_NO,
        right: 0,
        link: "v1;policy=version;clients=20",
        beside: "v1;policy=line;clients=20",
        told: "{sold} sold of {stock}, none wrong. It took {messages} messages, the line {messages2}. Retries are cheap while conflicts are rare, and here they are not.",
        next: "Two stores",
        holds: |it, beside| it.sold == 10 && it.wrong == 0 && beside.sold == 10,
    },
    Lesson {
        id: "cache",
        title: "Cache and database, updated twice",
        goal: "Each process writes its value to the database, and a little later to the cache. Above without a lock, below with one.",
        ask: "Are both the same in the end, without a lock?",
        answers: ["Surely", "By luck"],
        right: 1,
        link: "v1;work=cache;clients=2;rounds=4;seed=7",
        beside: "v1;policy=line;work=cache;clients=2;rounds=4;seed=7",
        told: "Without a lock: the database says {database}, the cache {cache}, and nothing will ever mend that. With the lock both say {database2}.",
        next: "Only so many at once",
        holds: |it, beside| it.database != it.cache && beside.database == beside.cache,
    },
    Lesson {
        id: "tickets",
        title: "Train tickets: a semaphore",
        goal: "Eight buyers, three counters. Above everyone sits down; below a semaphore of three permits.",
        ask: "Do more than three ever sit below?",
        answers: YES_NO,
        right: 1,
        link: "v1;work=seats;clients=8;rounds=3",
        beside: "v1;policy=line;work=seats;clients=8;rounds=3",
        told: "Without: {seated} sat at three counters. With the semaphore at most {seated2}; and a buyer who dies gives the permit back when the lease ends.",
        next: "A flash sale",
        holds: |it, beside| it.most_seated > 3 && beside.most_seated == 3,
    },
    Lesson {
        id: "flash-sale",
        title: "Ten items, 100 000 buyers",
        goal: "A hundred servers, each with a thousand buyers at its door. A server stands in line once for all of its buyers, and tells them when nothing is left.",
        ask: "How many are sold?",
        answers: ["Ten", "More"],
        right: 0,
        link: "v1;policy=line;clients=100;crowd=1000;hold=60;end=20000",
        beside: "",
        told: "{sold} sold of {stock}, by {messages} messages for 100 000 buyers. The line in the store is as long as there are servers, not buyers: the rest wait in memory.",
        next: "Two more mistakes: a result nobody reads",
        holds: |it, _| it.sold == 10 && it.wrong == 0 && it.waiting == 0,
    },
    Lesson {
        id: "unread",
        title: "A result that nobody looks at",
        goal: "SET NX is called, and its reply is not looked at.",
        ask: "How many are sold?",
        answers: ["Ten", "More"],
        right: 1,
        link: "v1;policy=unread;clients=3;seed=2;hold=120;gap=150;latency=15",
        beside: "",
        told: "{sold} sold of {stock}. In Rust, try_lock returns an Option: there is no guard without the lock.",
        next: "A thread id as the owner",
        holds: |it, _| it.sold > 10 && it.overlaps > 0,
    },
    Lesson {
        id: "thread",
        title: "The thread id as the owner",
        goal: "A re-entrant lock that knows its owner by the number of the thread. Every process has a thread 1.",
        ask: "How many are sold?",
        answers: ["Ten", "More"],
        right: 1,
        link: "v1;policy=thread;clients=3;seed=2;hold=120;gap=150;latency=15",
        beside: "",
        told: "{sold} sold of {stock}: every process took the key for its own. An owner's id must be unique everywhere: chosen at random, for each request.",
        next: "Back to the beginning",
        holds: |it, _| it.sold > 10 && it.overlaps > 0,
    },
];

impl Lesson {
    /// The lesson with this id.
    #[must_use]
    pub fn with_id(id: &str) -> Option<(usize, &'static Self)> {
        LESSONS.iter().enumerate().find(|(_, lesson)| lesson.id == id)
    }

    /// What happened, with the numbers of these runs.
    #[must_use]
    pub fn told_of(&self, run: &Figures, beside: &Figures) -> String {
        let mut text = self.told.to_owned();
        for (suffix, figures) in [("", run), ("2", beside)] {
            for (word, value) in figures.words() {
                text = text.replace(&format!("{{{word}{suffix}}}"), &value.to_string());
            }
        }
        text
    }

    /// Its run, and the run beside it; the same run if there is none.
    ///
    /// # Errors
    ///
    /// If its link is damaged.
    pub fn runs(&self) -> Result<(Run, Option<Run>), String> {
        let run = Run::new(&Settings::read(self.link)?);
        let beside = if self.beside.is_empty() { None } else { Some(Run::new(&Settings::read(self.beside)?)) };
        Ok((run, beside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lesson_comes_to_what_it_says() {
        for lesson in LESSONS {
            let (run, beside) = lesson.runs().unwrap();
            let (it, other) = (run.outcome(), beside.map(|run| run.outcome()).unwrap_or_default());
            assert!((lesson.holds)(&it, &other), "{}: {it:?}, beside: {other:?}", lesson.id);
            let told = lesson.told_of(&it, &other);
            assert!(!told.contains('{'), "{}: {told}", lesson.id);
        }
    }

    #[test]
    fn a_link_opens_the_same_run() {
        for lesson in LESSONS {
            let (run, _) = lesson.runs().unwrap();
            let again = Run::new(&Settings::read(&run.settings().write()).unwrap());
            assert_eq!(run.fingerprint(), again.fingerprint(), "{}", lesson.id);
            assert_eq!(run.count(), again.count(), "{}", lesson.id);
        }
    }

    #[test]
    fn a_step_back_is_what_the_step_forward_was() {
        for lesson in LESSONS.iter().step_by(3) {
            let (run, _) = lesson.runs().unwrap();
            for count in (0..run.count()).step_by(7) {
                let (machine, again) = (run.moment(count), run.moment(count));
                assert_eq!(machine.key(), again.key());
                assert!(machine.now <= run.end());
            }
            assert_eq!(run.moment(run.count()).key(), run.last().key());
        }
    }
}
