-- Joins of these claims that arrive later must not take effect.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since) VALUES {rows}
ON DUPLICATE KEY UPDATE since = VALUES(since);
