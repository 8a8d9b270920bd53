//! What other lock libraries got wrong, from their open and closed issues: each is a trial here, or a reason why
//! only a server can show it.

/// The lessons, counted from 1.
pub const LESSONS: [&str; 28] = [
    "loss is told to each guard before its lease can end, counted from when the request was sent",
    "one failed renewal neither loses the lock nor stops renewing",
    "a stalled node or name never delays another's renewal",
    "renewal never outlives release or cancellation",
    "an acquire that is dropped at any moment leaves nothing behind within a second",
    "a lost reply to an acquire strands nothing, and is never told as \"not acquired\"",
    "a repeated or late release never frees a successor's lock",
    "with every push and event lost, waiters still get on, each within a third of the ttl after its turn",
    "subscriptions are bounded, whatever the number of names; one stuck name delays no other",
    "a dead waiter costs its ttl at most, and commands that do not grow with the line",
    "live waiters keep their place when clients' clocks disagree by an hour",
    "a writer gets in under an endless stream of readers, and readers under one of writers",
    "a downgrade wakes waiting readers at once, and still keeps waiting writers out",
    "permits have an owner and a lease: a dead holder's permits come back",
    "whoever waits for n permits is woken when n are free, and not passed by smaller requests for ever",
    "ownership is the guard's: it moves between threads and tasks",
    "a claim of an earlier session is never taken for one's own; a failed leave leaves no orphan",
    "no herd: a hand-off costs the same with a thousand waiters; ten thousand names leave nothing",
    "many waiters live on few connections; names are compared byte by byte; sub-second waits are honoured",
    "several locks are taken in one order, with one deadline, all or none",
    "the future of a loss fires when nobody polls anything else, and after the runtime was busy past the ttl",
    "every key carries the namespace; nothing grows for ever",
    "after a failover the lock is usable within a ttl, and an old holder's write is refused",
    "closing gives everything back before it returns",
    "passwords never appear in errors or in what is printed for debugging",
    "one client works in many runtimes",
    "names cannot inject: quotes, braces, scripts, queries and paths in them do nothing",
    "a short hold is handed over as fast as a long one",
];
