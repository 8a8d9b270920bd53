//! Faults that the comparison must find: each changes the statements' text in a few places.

#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Sequences that find it.
    pub(crate) seeds: &'static [u64],
    /// The right text and the wrong one; `{now}` is the clock.
    pub(crate) changes: &'static [(&'static str, &'static str)],
}

const fn fault(
    name: &'static str,
    seeds: &'static [u64],
    changes: &'static [(&'static str, &'static str)],
) -> Fault {
    Fault { name, seeds, changes }
}

pub(crate) const FAULTS: &[Fault] = &[
    fault("a_free_name_is_taken_beside_its_holder", &[], &[("spilled = 0 AND session = 0,", "spilled = 0,")]),
    fault("a_name_in_rows_is_taken", &[], &[("spilled = 0 AND session = 0,", "session = 0,")]),
    fault("a_void_claim_comes_alive", &[], &[("WHEN @t_was = 2 THEN 4 ", "")]),
    fault("a_claim_that_stands_joins_again", &[], &[("WHEN @t_was IS NOT NULL THEN 5\n", "\n")]),
    fault("a_newcomer_passes_those_who_wait", &[], &[("WHEN NOT @t_waiting AND @t_used", "WHEN @t_used")]),
    fault(
        "weights_are_not_added_up",
        &[],
        &[("SET @t_used = @t_used + IF(@t_out = 1,", "SET @t_used = @t_used + IF(0,")],
    ),
    fault("kinds_are_not_compared", &[], &[("THEN 5\n  WHEN @t_kind <>", "THEN 5\n  WHEN 0 AND @t_kind <>")]),
    fault("holders_that_live_are_buried", &[], &[("c.state = 0 AND s.expires <= @t_now;", "c.state = 0;")]),
    fault("holders_that_died_stay", &[], &[("c.state = 0 AND s.expires <= @t_now;", "c.state = 9;")]),
    fault("a_dead_client_stays", &[], &[("AND expires > 0) INTO @t_dead", "AND expires > 0) AND 0 INTO @t_dead")]),
    fault(
        "a_waiter_that_died_is_passed_the_mutex",
        &[],
        &[("WHERE s.id = w.session) > @t_now", "WHERE s.id = w.session) > 0")],
    ),
    fault("tokens_go_by_the_clock_alone", &[], &[("GREATEST(token + 1, VALUES(token))", "VALUES(token)")]),
    fault(
        "tokens_of_a_passed_mutex_go_by_the_clock_alone",
        &[],
        &[("GREATEST(l.token + 1, @t_now DIV 10)", "@t_now DIV 10")],
    ),
    fault("a_resize_strands", &[], &[("INTO @t_stuck", "AND 0 INTO @t_stuck")]),
    fault(
        "a_heavy_claim_gets_lighter_and_wakes_nobody",
        &[],
        &[("IF(@t_kind = 1 OR @t_used >= @t_capacity, x'',", "IF(1, x'',")],
    ),
    fault(
        "who_waits_stands_anywhere",
        &[],
        &[("SELECT l.name, 1, l.place + 1 + j.nth,", "SELECT l.name, 1, l.place + 101 - j.nth,")],
    ),
    fault(
        "a_claim_holds_after_its_transaction",
        &[],
        &[("AND h.state = 0 AND h.weight > 0);", "AND h.state = 0);"), ("AND state = 0 AND weight > 0;", "AND state = 0;")],
    ),
    fault("a_session_that_is_over_is_renewed", &[], &[(" AND expires > {now};", ";")]),
    fault("a_lifetime_outlasts_a_clock_that_was_set_back", &[], &[(" AND expires > {now} + ttl;", " AND 0;")]),
    fault("a_crowd_queues_in_any_order", &[], &[("1, @t_place + j.nth,", "1, @t_place + 99 - j.nth,")]),
    fault(
        "a_mutex_goes_to_the_last_one",
        &[],
        &[("> @t_now ORDER BY w.place LIMIT 1", "> @t_now ORDER BY w.place DESC LIMIT 1")],
    ),
];
