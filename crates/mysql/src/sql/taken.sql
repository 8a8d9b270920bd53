SELECT 'n', l.name, l.session, l.number, l.token, l.kind, l.capacity, l.spilled, COALESCE(s.expires > {now}, 0)
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name IN ({names});
