-- A join of another client's claim that arrives later must not take effect; once that client's session is over, none does.
-- A claim that stays is left alone.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT {name}, 2, {number}, {session}, {number}, 0, 0, @t_now FROM DUAL WHERE NOT EXISTS (
  SELECT 1 FROM tidelock_claim WHERE session = {session} AND number = {number} AND state < 2) AND EXISTS (
  SELECT 1 FROM tidelock_session WHERE id = {session})
ON DUPLICATE KEY UPDATE since = VALUES(since);
