-- Joins of these claims that arrive later must not take effect. Once the caller's session is over, none does.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT {name}, 2, v.number, {me}, v.number, 0, 0, @t_now FROM ({rows}) v
WHERE EXISTS (SELECT 1 FROM tidelock_session s WHERE s.id = {me})
ON DUPLICATE KEY UPDATE since = VALUES(since);
