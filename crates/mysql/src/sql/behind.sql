-- Waits for mutexes whose claims are in rows. A line without claims, or of another kind, is left alone.
INSERT IGNORE INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT l.name, 1, l.place + j.nth, {me}, j.number, 1, 0, {now}
FROM ({rows}) j JOIN tidelock_line l ON l.name = j.name JOIN tidelock_session s ON s.id = {me} AND s.expires > {now}
WHERE l.spilled = 1 AND l.kind = 1
  AND EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state < 2) ORDER BY j.nth;
UPDATE tidelock_line SET place = place + {count} WHERE name IN ({names}) AND spilled = 1;
SELECT 'k', c.number, c.state, {now}, (SELECT MIN(COALESCE(s.expires, 0))
  FROM tidelock_claim h LEFT JOIN tidelock_session s ON s.id = h.session WHERE h.name = c.name AND h.state = 0), c.name
FROM tidelock_claim c WHERE c.session = {me} AND c.number IN ({numbers});
