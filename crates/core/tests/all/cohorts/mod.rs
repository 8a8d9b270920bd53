//! A hold is passed on among the tasks of one client: to those who wait, in their order, with growing tokens, and not for
//! longer than `linger`.

mod asking;
mod away;
mod gate;
mod leaders;
mod lost_joins;
mod mutex;
mod outages;
mod patience;
mod readers;
mod time;
