SELECT 'L', {now}, l.kind, l.capacity, l.spilled, l.session, l.number, l.weight, l.token, l.since, s.label, s.expires
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name = {name};
SELECT 'C', c.session, c.number, c.weight, c.state, c.token, c.since, s.label FROM tidelock_claim c
JOIN tidelock_session s ON s.id = c.session
WHERE c.name = {name} AND c.state < 2 AND {counts c} AND s.expires > {now} ORDER BY c.state, c.place;
