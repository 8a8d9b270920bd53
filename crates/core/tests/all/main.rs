//! The tests of what users call, over the memory backend, in one program. Apart are those that change or need what a
//! whole process has: its panic hook and its subscriber (`listeners`, `log`, `spans`), its threads (`threads`), and the
//! time of its keepers (`any_order`, `busy_keeper`).

mod acquire;
mod beside_others;
mod closing;
mod cohorts;
mod combinators;
mod condition;
mod deaf;
mod evictions;
mod forgetful;
mod handles;
mod hung;
mod jeopardy;
mod keeper;
mod keeps_only_claims;
mod late_answers;
mod layered;
mod line;
mod outages;
mod pass_through;
mod releases;
mod renewals;
mod shards;
mod strays;
mod trouble;
mod wakers;
