-- Waits for mutexes that others hold. A holder that is alone becomes a row like all others, so that claims can wait
-- behind it, if one of them has to have a row. A line without claims, of another kind, or with waiters in its row is left
-- alone.
INSERT IGNORE INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT l.name, 0, l.place + 1, l.session, l.number, l.weight, l.token, l.since FROM tidelock_line l
WHERE l.name IN ({names}) AND l.kind = 1 AND {spills} AND l.spilled = 0 AND l.session <> 0 AND l.waiters = ''
  AND NOT (l.session = {me} AND l.number IN ({numbers}))
UNION ALL SELECT l.name, 1, l.place + 1 + j.nth, {me}, j.number, 1, 0, {now}
FROM ({rows}) j JOIN tidelock_line l ON l.name = j.name JOIN tidelock_session s ON s.id = {me} AND s.expires > {now}
WHERE l.kind = 1 AND IF(l.spilled = 0, {spills} AND l.session <> 0 AND l.waiters = '' AND NOT (l.session = {me} AND l.number IN ({numbers})),
  EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state < 2 AND {counts c}));
UPDATE tidelock_line SET place = place + 1 + {count}, spilled = 1, session = 0
WHERE name IN ({names}) AND kind = 1 AND IF(spilled = 0, {spills} AND session <> 0 AND waiters = '' AND EXISTS (SELECT 1 FROM tidelock_claim c
  WHERE c.session = tidelock_line.session AND c.number = tidelock_line.number AND c.state = 0), 1);
SELECT 'k', c.number, c.state, {now}, (SELECT MIN(COALESCE(s.expires, 0))
  FROM tidelock_claim h LEFT JOIN tidelock_session s ON s.id = h.session WHERE h.name = c.name AND h.state = 0 AND {counts h}), c.name
FROM tidelock_claim c WHERE c.session = {me} AND c.number IN ({numbers});
