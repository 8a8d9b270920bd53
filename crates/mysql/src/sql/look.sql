-- Reads a line: the line, the dead among the holders and near the front, the first waiter alive, and the claims of the
-- caller.
SELECT 'L', {now}, l.kind, l.capacity, l.spilled, l.session, l.number, l.weight, l.token, COALESCE(s.expires, 0),
  COALESCE(s.ttl, 0), l.waiters FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session WHERE l.name = {name};
SELECT 'H', COUNT(*), COALESCE(SUM(c.weight), 0), COALESCE(MIN(COALESCE(s.expires, 0)), 0)
FROM tidelock_claim c LEFT JOIN tidelock_session s ON s.id = c.session WHERE c.name = {name} AND c.state = 0 AND {counts c};
SELECT 'D', c.session, MAX(COALESCE(s.expires, 0) > {now}) FROM (
  SELECT session FROM tidelock_claim WHERE name = {name} AND state = 0
  UNION ALL (SELECT session FROM tidelock_claim WHERE name = {name} AND state = 1 ORDER BY place LIMIT {most})
) c LEFT JOIN tidelock_session s ON s.id = c.session
WHERE s.id IS NULL OR s.expires <= {now} OR s.expires > {now} + s.ttl + 1000000 GROUP BY c.session LIMIT {most};
SELECT 'F', c.weight FROM tidelock_claim c WHERE c.name = {name} AND c.state = 1
  AND (SELECT s.expires FROM tidelock_session s WHERE s.id = c.session) > {now} ORDER BY c.place LIMIT 1;
SELECT 'C', number, state, token FROM tidelock_claim WHERE session = {me} AND name = {name} AND state < 2 AND {counts tidelock_claim};
SELECT 'D', s.id, 1 FROM tidelock_line l JOIN tidelock_session s ON s.expires > {now} + s.ttl + 1000000
WHERE l.name = {name} AND l.waiters <> '' AND LOCATE(CONCAT('.', LPAD(s.id, 20, '0'), '.'), l.waiters) > 0 LIMIT {most};
