SELECT 'n', l.name, l.session, l.number, l.token, l.kind, l.capacity, l.spilled, {now}, COALESCE(s.expires, 0), l.waiters
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name IN ({names});
