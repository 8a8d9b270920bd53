-- Some clients that died a while ago, and the names on which they still have claims.
SELECT 'S', d.id, c.name FROM (
  SELECT id FROM tidelock_session WHERE expires + {age} < {now} LIMIT 10
) d LEFT JOIN tidelock_claim c ON c.session = d.id AND c.state < 2 LIMIT {most};
