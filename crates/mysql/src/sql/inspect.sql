SELECT 'L', {now}, l.kind, l.capacity, l.spilled, l.session, l.number, l.weight, l.token, l.since, s.label, s.expires, l.waiters
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name = {name};
SELECT 'C', c.session, c.number, c.weight, c.state, c.token, c.since, s.label FROM tidelock_claim c
JOIN tidelock_session s ON s.id = c.session
WHERE c.name = {name} AND c.state < 2 AND {counts c} AND s.expires > {now} ORDER BY c.state, c.place;
SELECT 'W', s.id, s.label FROM tidelock_line l JOIN tidelock_session s ON LOCATE(CONCAT('.', LPAD(s.id, 20, '0'), '.'), l.waiters) > 0
WHERE l.name = {name} AND s.expires > {now};
