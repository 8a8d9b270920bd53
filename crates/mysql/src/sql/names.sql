SELECT l.name FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session
WHERE l.name > {after} AND l.name < {end} AND (l.session <> 0 AND s.expires > {now} OR l.waiters <> '' AND EXISTS (
  SELECT 1 FROM tidelock_session w WHERE w.expires > {now} AND LOCATE(CONCAT('.', LPAD(w.id, 20, '0'), '.'), l.waiters) > 0)
  OR l.spilled = 1 AND EXISTS (
  SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state < 2 AND {counts c}
    AND (SELECT t.expires FROM tidelock_session t WHERE t.id = c.session) > {now})) ORDER BY l.name LIMIT {most};
