//! Backends that are broken on purpose, with one fault each. The suite proves itself by failing on them.
//!
//! Each is a [`Layer`](tidelock_core::backend::Layer) over the memory backend. Some duties are core's own (deadlines, reporting a loss,
//! looking again). They are broken at the seam, by a backend that lies about them.

mod blocks_every_name;
mod counts_from_the_reply;
mod drops_notifications;
mod forgets_a_leave;
mod frees_a_permit_too_many;
mod frees_another;
mod gives_strays_back;
mod grants_on_a_lost_reply;
mod grants_twice;
mod ignores_the_prefix;
mod invented;
mod keeps_renewing;
mod last_come_first;
mod layer;
mod leaves_a_cancelled_claim;
mod lets_another_kind_in;
mod lost_on_the_first_failure;
mod mixes_up_names;
mod readers_pass;
mod retold;
mod reuses_tokens;
mod says_nothing_on_loss;
mod stretches_a_turn;
mod tells_the_size_asked_for;
mod tokens_go_down;

use std::sync::Arc;
use std::time::Duration;

use tidelock_memory::Store;

use crate::ManualTime;
use crate::subjects::{Bend, Seam};

/// How long claims live in a storm over them, in real time.
const SHORT_TTL: Duration = Duration::from_secs(1);

/// A backend that is broken on purpose, and the trial that tests for its fault.
#[derive(Clone, Copy, Debug)]
pub struct Broken {
    /// Its fault.
    pub name: &'static str,
    /// The trial that must catch it.
    pub trial: &'static str,
    bend: fn(&ManualTime) -> Bend,
}

/// A backend that is broken on purpose, and that a storm must catch.
#[derive(Clone, Copy, Debug)]
pub struct Weak {
    /// Its fault.
    pub name: &'static str,
    bend: fn(&ManualTime) -> Bend,
}

impl Broken {
    /// The subject: memory with the fault in front of it.
    #[must_use]
    pub fn subject(&self) -> Seam {
        Seam::new(self.name, |time| Arc::new(time.store())).bent(self.bend)
    }
}

impl Weak {
    /// The subject: memory on the boot clock, with the fault in front of it.
    #[must_use]
    pub fn subject(&self) -> Seam {
        Seam::new(self.name, |_| Arc::new(Store::new())).in_real_time(SHORT_TTL).bent(self.bend)
    }
}

/// The backends that a storm over them must catch, without knowing their faults.
#[must_use]
pub fn weak() -> Vec<Weak> {
    let weak = |name, bend| Weak { name, bend };
    vec![
        weak("grants twice, once in a hundred", grants_twice::bend),
        weak("lets another kind in", lets_another_kind_in::bend),
        weak("tells the size that was asked for", tells_the_size_asked_for::bend),
        weak("serves the line last come first", last_come_first::bend),
        weak("reuses a token after an emptied line", reuses_tokens::bend),
        weak("gives a lower token after a restart", tokens_go_down::bend),
        weak("drops notifications and never looks again", drops_notifications::bend),
        weak("frees a permit too many on expiry", frees_a_permit_too_many::bend),
        weak("gives back what was joined while a renewal was under way", gives_strays_back::bend),
    ]
}

/// All broken backends.
#[must_use]
pub fn all() -> Vec<Broken> {
    let broken = |name, trial, bend| Broken { name, trial, bend };
    vec![
        broken("grants twice, once in a hundred", "a_mutex_has_one_holder_in_a_crowd", grants_twice::bend),
        broken(
            "grants on a lost reply",
            "a_lost_reply_to_an_acquire_is_no_answer",
            grants_on_a_lost_reply::bend,
        ),
        broken("forgets a leave", "a_thousand_names_leave_nothing", forgets_a_leave::bend),
        broken(
            "reuses a token after an emptied line",
            "tokens_grow_although_the_line_was_empty",
            reuses_tokens::bend,
        ),
        broken("gives a lower token after a restart", "tokens_grow_over_a_restart", tokens_go_down::bend),
        broken(
            "drops notifications and never looks again",
            "waiters_get_on_with_every_signal_lost",
            drops_notifications::bend,
        ),
        broken(
            "frees another's claim on a repeated leave",
            "a_repeated_leave_frees_no_successor",
            frees_another::bend,
        ),
        broken(
            "leaves a claim behind that was cancelled with its reply in flight",
            "an_acquire_dropped_with_its_reply_held_back_leaves_nothing",
            leaves_a_cancelled_claim::bend,
        ),
        broken(
            "counts the deadline from the reply",
            "a_deadline_counts_from_before_the_request",
            counts_from_the_reply::bend,
        ),
        broken(
            "says Lost on the first failed renewal",
            "one_failed_renewal_is_jeopardy_and_not_loss",
            lost_on_the_first_failure::bend,
        ),
        broken(
            "says nothing on loss",
            "loss_is_told_before_the_lease_can_have_ended",
            says_nothing_on_loss::bend,
        ),
        broken(
            "says nothing when a session ends",
            "an_ended_session_is_told_to_every_guard",
            says_nothing_on_loss::bend,
        ),
        broken(
            "lets a reader pass a waiting writer",
            "a_reader_never_passes_a_waiting_writer",
            readers_pass::bend,
        ),
        broken(
            "frees a permit too many on expiry",
            "a_dead_clients_permits_come_back_and_no_more",
            frees_a_permit_too_many::bend,
        ),
        broken(
            "mixes up two names that differ by a slash",
            "names_that_differ_by_a_slash_are_two",
            mixes_up_names::bend,
        ),
        broken(
            "lists names of another prefix",
            "strange_names_are_names_and_no_two_are_one",
            ignores_the_prefix::bend,
        ),
        broken("keeps renewing after a release", "no_lock_is_kept_alive_for_nobody", keeps_renewing::bend),
        broken(
            "gives back what was joined while a renewal was under way",
            "many_short_holds_outlive_many_renewals",
            gives_strays_back::bend,
        ),
        broken(
            "serves the line last come first",
            "waiters_are_served_in_the_order_they_came",
            last_come_first::bend,
        ),
        broken(
            "stretches a turn past its end",
            "crowds_that_pass_holds_on_keep_their_order",
            stretches_a_turn::bend,
        ),
        broken(
            "blocks every name while one stalls",
            "a_stalled_name_delays_no_other",
            blocks_every_name::bend,
        ),
    ]
}
