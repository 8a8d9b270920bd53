//! Faults that the comparison must catch: each changes the scripts' text in a few places, before the names of the record
//! are replaced by their values.

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// The right text and the wrong one.
    pub(crate) changes: &'static [(&'static str, &'static str)],
}

const fn fault(name: &'static str, changes: &'static [(&'static str, &'static str)]) -> Fault {
    Fault { name, changes }
}

/// Not a fault: limits so low for the grants of one script, and for the fetches of the usual leave, that even a short
/// line reaches them.
pub(crate) const FEW_AT_ONCE: Fault = fault(
    "few_at_once",
    &[("at.seq, GRANTS, 1, true", "at.seq, 2, 1, true"), ("fetches == FETCHES", "fetches == 1")],
);

pub(crate) const FAULTS: &[Fault] = &[
    fault(
        "a_claim_that_asks_again_is_judged_after_the_others",
        &[
            ("mine, at.ends = false, 0", "at.ends = 0"),
            ("if mine then\n", "if mine and holder(caller).ends > now() then\n"),
        ],
    ),
    fault(
        "a_lifetime_is_counted_from_another_ones_place",
        &[(
            "math.ceil((life.ends - place) / TICKS)",
            "math.ceil(math.max(life.from - place, 0) / TICKS + life.lasts)",
        )],
    ),
    fault(
        "a_session_is_forgotten_that_may_be_marked",
        &[(
            "lasts * TICKS + TRUSTED_TICKS <= now() and from + TRUSTED_TICKS < tonumber(front)",
            "lasts * TICKS <= now()",
        )],
    ),
    fault("a_waiter_that_died_is_granted", &[("ends <= now() or weight == 0", "weight == 0")]),
    fault(
        "a_waiter_that_died_is_granted_by_the_usual_leave",
        &[("* TICKS - tick <= 0 do", "* TICKS - tick <= -1e15 do")],
    ),
    fault("a_holder_that_died_stays", &[("if ends <= now() then", "if false then")]),
    fault("a_holder_that_died_is_renewed", &[("if from + lasts * TICKS - tick > 0 then", "if true then")]),
    fault(
        "a_holder_that_died_lives_by_its_sessions_next_grant",
        &[("  sweep()\nend\nif mine then", "end\nif mine then")],
    ),
    fault("a_holder_that_died_is_waited_for", &[("if soon <= 0 then break end", "")]),
    fault(
        "who_waited_too_long_lives_by_the_next_claim",
        &[("if known.from ~= '' and known.from + known.lasts * TICKS <= now() then", "if false then")],
    ),
    fault(
        "who_waited_too_long_lives_by_the_next_usual_claim",
        &[("if before and sub(before, 1, LIFE_FROM_END) + lasted <= tonumber(tick) then", "if false then")],
    ),
    fault(
        "who_was_forgotten_lives_by_the_next_claim",
        &[(" and from + TRUSTED_TICKS < tonumber(front)", "")],
    ),
    fault(
        "who_waited_too_long_is_renewed",
        &[("are_buried = from + lasts * TICKS - tick <= 0", "are_buried = false")],
    ),
    fault(
        "who_waited_too_long_is_renewed_in_front",
        &[("if place + lasts * TICKS - tick > 0 then", "if true then")],
    ),
    fault(
        "who_waited_too_long_comes_to_the_front",
        &[("sub(life, LIFE_PLACE, LIFE_PLACE_END) <= place then", "true then")],
    ),
    fault(
        "who_waited_too_long_goes_back_alive",
        &[("if place + lasts * TICKS > now() then -- or", "if true then -- or")],
    ),
    fault("a_join_that_comes_late_comes_alive", &[("return { 'gone' }", "")]),
    fault("a_void_claim_is_forgotten_at_once", &[("VOID + this_ms + ttl)", "VOID + this_ms)")]),
    fault("a_long_lifetime_fits_the_usual_form", &[("at.ttl > SHORT or ", "")]),
    fault("keys_expire_before_those_who_live_long", &[("math.max(KEPT, at.ttl * 4,", "math.max(KEPT, 0,")]),
    fault("a_line_never_expires", &[("for i = 1, 3 do -- together", "for i = 1, 1 do -- together")]),
    fault("tokens_go_by_the_clock_alone", &[("at.last = math.max(at.last + 1, ticks)", "at.last = ticks")]),
    fault(
        "a_newcomer_passes_those_who_wait",
        &[("if not at.seq and at.used + weight", "if at.used + weight")],
    ),
    fault("places_go_by_the_clock_alone", &[("math.max(ticks, (last[2] or 0) + 1)", "ticks")]),
    fault(
        "a_spill_forgets_the_order",
        &[("before = math.min(claims[i][2], before - 1)", "before = claims[i][2]")],
    ),
    fault("a_place_outlives_its_claim", &[("elseif tonumber(place) >= life.ends then", "elseif false then")]),
    fault(
        "who_comes_first_is_not_renewed",
        &[("(claims > 0 or waiting > 0 or is_old", "(claims > 0 or is_old")],
    ),
    fault("renewals_are_forgotten_on_the_way_up", &[("if from > place then lasts", "if false then lasts")]),
    fault("nobody_goes_on", &[("tell(session_of(next_one), 'look ' .. string.match(held, '{(.*)}'))", "")]),
    fault("somebody_seems_to_wait_still", &[("at.seq = next_one\n", "")]),
    fault("a_grant_is_not_told", &[("tell(session, table.concat(told, ' '))", "")]),
    fault("an_own_grant_is_not_told", &[("own[#own + 1] = granted[claim]", "own[#own + 1] = 1")]),
    fault("an_eviction_is_not_told", &[("'gone ' .. string.sub(claim, CLAIM_NUMBER)", "'gone 0'")]),
    fault(
        "a_lighter_claim_wakes_nobody",
        &[(
            "at.used = at.used - tonumber(before) + weight\nsettle()",
            "at.used = at.used - tonumber(before) + weight",
        )],
    ),
    fault("a_resize_strands", &[("tonumber(weights[i + 1]) > to", "false")]),
    fault("a_dead_waiter_keeps_a_size", &[("if lives_waiting(claim) then", "if true then")]),
    fault("a_lone_stray_is_missed", &[("if count <= 0 then", "if count <= 1 then")]),
    fault("a_hold_is_not_counted", &[("known.sum = known.sum + by", "known.sum = known.sum + 0")]),
];
