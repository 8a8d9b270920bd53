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
    fault(
        "a_free_name_is_taken_beside_its_holder",
        &[1_011],
        &[("spilled = 0 AND session = 0,", "spilled = 0,")],
    ),
    fault(
        "a_dead_client_takes_what_is_free",
        &[1_038],
        &[("FROM tidelock_session s WHERE s.expires > {now} AND s.id", "FROM tidelock_session s WHERE s.id")],
    ),
    fault("a_name_in_rows_is_taken", &[1_010], &[("spilled = 0 AND session = 0,", "session = 0,")]),
    fault(
        "a_name_that_has_a_holder_is_taken_again",
        &[1_023],
        &[("spilled = 0 AND session = 0\n", "spilled = 0\n")],
    ),
    fault(
        "tokens_of_what_is_taken_again_go_by_the_clock_alone",
        &[1_012],
        &[("LAST_INSERT_ID(GREATEST(token + 1, {now} DIV 10))", "LAST_INSERT_ID({now} DIV 10)")],
    ),
    fault("a_void_claim_comes_alive", &[1_006], &[("WHEN @t_was = 2 THEN 4 ", "")]),
    fault("a_claim_that_stands_joins_again", &[1_007], &[("WHEN @t_was IS NOT NULL THEN 5\n", "\n")]),
    fault(
        "a_newcomer_passes_those_who_wait",
        &[1_005],
        &[("WHEN NOT @t_waiting AND @t_used", "WHEN @t_used")],
    ),
    fault(
        "weights_are_not_added_up",
        &[1_003],
        &[("SET @t_used = @t_used + IF(@t_out = 1,", "SET @t_used = @t_used + IF(0,")],
    ),
    fault(
        "kinds_are_not_compared",
        &[1_000],
        &[("THEN 5\n  WHEN @t_kind <>", "THEN 5\n  WHEN 0 AND @t_kind <>")],
    ),
    fault(
        "holders_that_live_are_buried",
        &[1_007],
        &[("c.state = 0 AND s.expires <= @t_now;", "c.state = 0;")],
    ),
    fault("holders_that_died_stay", &[1_003], &[("c.state = 0 AND s.expires <= @t_now;", "c.state = 9;")]),
    fault(
        "a_dead_client_stays",
        &[1_006],
        &[("AND expires > 0) INTO @t_dead", "AND expires > 0) AND 0 INTO @t_dead")],
    ),
    fault(
        "a_waiter_that_died_is_passed_the_mutex",
        &[1_056],
        &[("WHERE s.id = w.session) > @t_now", "WHERE s.id = w.session) > 0")],
    ),
    fault(
        "tokens_go_by_the_clock_alone",
        &[1_037],
        &[("GREATEST(token + 1, VALUES(token))", "VALUES(token)")],
    ),
    fault(
        "tokens_of_a_passed_mutex_go_by_the_clock_alone",
        &[1_057],
        &[("GREATEST(l.token + 1, @t_now DIV 10)", "@t_now DIV 10")],
    ),
    fault("a_resize_strands", &[1_004], &[("INTO @t_stuck", "AND 0 INTO @t_stuck")]),
    fault(
        "a_heavy_claim_gets_lighter_and_wakes_nobody",
        &[1_010],
        &[("IF(@t_kind = 1 OR @t_used >= @t_capacity, x'',", "IF(1, x'',")],
    ),
    fault(
        "who_waits_stands_anywhere",
        &[1_005],
        &[("SELECT l.name, 1, l.place + 1 + j.nth,", "SELECT l.name, 1, l.place + 101 - j.nth,")],
    ),
    fault(
        "a_claim_holds_after_its_transaction",
        &[1_073],
        &[
            ("h.state = 0 AND {counts h});", "h.state = 0);"),
            ("AND state = 0 AND {counts tidelock_claim};", "AND state = 0;"),
        ],
    ),
    fault("a_session_that_is_over_is_renewed", &[1_007], &[(" AND expires > {now};", ";")]),
    fault(
        "a_lifetime_outlasts_a_clock_that_was_set_back",
        &[1_030],
        &[(" AND expires > {now} + ttl;", " AND 0;")],
    ),
    fault("a_crowd_queues_in_any_order", &[1_001], &[("1, @t_place + j.nth,", "1, @t_place + 99 - j.nth,")]),
    fault(
        "a_first_waiter_that_died_is_handed_the_mutex",
        &[3_263],
        &[(
            "WHERE s.id = CAST(SUBSTR(waiters, 18, 20) AS UNSIGNED)) > {now});",
            "WHERE s.id = CAST(SUBSTR(waiters, 18, 20) AS UNSIGNED)) > 0);",
        )],
    ),
    fault(
        "tokens_of_what_is_handed_on_go_by_the_clock_alone",
        &[1_048],
        &[("token, GREATEST(token + 1, {now} DIV 10)), since", "token, {now} DIV 10), since")],
    ),
    fault(
        "who_waits_in_the_row_waits_twice",
        &[1_004],
        &[("VALUES(number), ':'), waiters) = 0", "VALUES(number), ':'), waiters) >= 0")],
    ),
    fault(
        "a_waiter_that_leaves_takes_another_along",
        &[1_116],
        &[("- 16, 16 + LENGTH(", "- 16, 6000 + LENGTH(")],
    ),
    fault(
        "who_waits_in_the_row_gets_a_row_anywhere",
        &[1_023],
        &[("SELECT w.name, 1, w.place + 1 + w.nth,", "SELECT w.name, 1, w.place + 101 - w.nth,")],
    ),
    fault(
        "who_gets_a_row_is_waited_for_twice",
        &[1_023],
        &[("spilled = 1, session = 0, waiters = '' WHERE", "spilled = 1, session = 0 WHERE")],
    ),
    fault("a_holder_is_given_back_with_those_who_wait", &[1_048], &[(" AND waiters = '';", ";")]),
    fault(
        "a_mutex_goes_to_the_last_one",
        &[1_052],
        &[("> @t_now ORDER BY w.place LIMIT 1", "> @t_now ORDER BY w.place DESC LIMIT 1")],
    ),
];
