-- Before a join, so that it does not join the line of dead holders, with their kind and their size. Not for a mutex:
-- its row may be locked by a user's transaction, and it has one size.
UPDATE tidelock_claim c FORCE INDEX (PRIMARY) STRAIGHT_JOIN tidelock_session s ON s.id = c.session SET s.expires = 0
WHERE c.name = IF(@t_kind = 1, x'', {name}) AND c.state = 0 AND s.expires <= @t_now;
DELETE c FROM tidelock_claim c FORCE INDEX (PRIMARY) LEFT JOIN tidelock_session s ON s.id = c.session
WHERE c.name = IF(@t_kind = 1, x'', {name}) AND c.state = 0 AND (s.id IS NULL OR s.expires = 0);
