-- A dead client's claim holds if a user's transaction has it: then its slot has its stamp, committed or not.
SELECT 'L', {now}, l.kind, l.capacity, l.spilled, l.session, l.number, l.weight, l.token, l.since, s.label, s.expires, l.waiters
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name = {name};
SELECT 'C', c.session, c.number, c.weight, c.state, c.token, c.since, COALESCE(s.label, ''), COALESCE(s.expires, 0) > {now}
FROM tidelock_claim c LEFT JOIN tidelock_session s ON s.id = c.session
WHERE c.name = {name} AND c.state < 2 AND {counts c} AND (s.expires > {now} OR c.state = 0 AND c.slot > 0)
ORDER BY c.state, c.place;
SELECT 'W', s.id, s.label FROM tidelock_line l JOIN tidelock_session s ON LOCATE(CONCAT('.', LPAD(s.id, 20, '0'), '.'), l.waiters) > 0
WHERE l.name = {name} AND s.expires > {now};
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
SELECT 'o', c.session, c.number FROM tidelock_claim c JOIN tidelock_slot t ON t.slot = c.slot
WHERE c.name = {name} AND c.state = 0 AND t.session = c.session AND t.number = c.number;
