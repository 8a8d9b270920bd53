-- Names that nobody has used for a while; and names with a dead claim, or in rows although they have no claim; among
-- the next few names of all namespaces. A dead claim may also be one that has left with its transaction.
SELECT 'P', l.name, (l.session = 0 AND l.spilled = 0 AND l.token < ({now} - {unused}) DIV 10
    AND NOT EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name)),
  (l.session <> 0 AND COALESCE(s.expires, 0) + {age} < {now}) OR (l.spilled = 1 AND NOT EXISTS (
    SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND {counts c}
      AND (SELECT t.expires FROM tidelock_session t WHERE t.id = c.session) + {age} > {now}))
  OR EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state = 0 AND NOT {counts c}
    AND COALESCE((SELECT t.expires FROM tidelock_session t WHERE t.id = c.session), 0) + {age} < {now})
FROM tidelock_line l LEFT JOIN tidelock_session s ON s.id = l.session
WHERE l.name > {after} ORDER BY l.name LIMIT {most};
