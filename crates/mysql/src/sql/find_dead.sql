-- Some clients that died a while ago, and the names on which they still have claims. And some that were closed, and for which
-- somebody has rung since.
SELECT 'S', d.id, c.name FROM (
  (SELECT id FROM tidelock_session WHERE expires + {age} < {now} LIMIT 10) UNION ALL
  (SELECT session AS id FROM tidelock_bell b WHERE NOT EXISTS (SELECT 1 FROM tidelock_session s WHERE s.id = b.session) LIMIT 10)
) d LEFT JOIN tidelock_claim c ON c.session = d.id AND c.state < 2 LIMIT {most};
