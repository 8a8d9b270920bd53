-- A join of this claim that arrives later must not take effect.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
VALUES ({name}, 2, {number}, {session}, {number}, 0, 0, @t_now) ON DUPLICATE KEY UPDATE since = VALUES(since);
