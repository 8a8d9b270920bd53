-- Names in use. Then the claims of dead clients that hold if a user's transaction has them, and those whose slots have their
-- stamps, committed or not.
SELECT 'n', l.name FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session
WHERE l.name > {after} AND l.name < {end} AND (l.session <> 0 AND s.expires > {now} OR l.waiters <> '' AND EXISTS (
  SELECT 1 FROM tidelock_session w WHERE w.expires > {now} AND LOCATE(CONCAT('.', LPAD(w.id, 20, '0'), '.'), l.waiters) > 0)
  OR l.spilled = 1 AND EXISTS (
  SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state < 2 AND {counts c}
    AND (SELECT t.expires FROM tidelock_session t WHERE t.id = c.session) > {now})) ORDER BY l.name LIMIT {most};
SELECT 'd', c.session, c.number, c.name FROM tidelock_claim c LEFT JOIN tidelock_session s ON s.id = c.session
WHERE c.name > {after} AND c.name < {end} AND c.state = 0 AND c.slot > 0 AND {counts c} AND COALESCE(s.expires, 0) <= {now};
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
SELECT 'o', c.session, c.number FROM tidelock_claim c JOIN tidelock_slot t ON t.slot = c.slot
WHERE c.name > {after} AND c.name < {end} AND c.state = 0 AND t.session = c.session AND t.number = c.number;
