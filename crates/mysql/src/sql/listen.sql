-- Sleeps in the server until the bell rings, some steps at most, each a little longer than the one before. Each step
-- reads the bell anew, because this connection reads what is not committed yet; that is only a hint.
SELECT 1 FROM (SELECT a.n + 10 * b.n AS n FROM
  (SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
    UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9) a,
  (SELECT 0 AS n UNION ALL SELECT 1) b ORDER BY n LIMIT {steps}) steps
WHERE IF(SLEEP({first} + {more} * steps.n) = 0,
  (SELECT rung FROM tidelock_bell WHERE session = {me} + 0 * steps.n), {rung}) <> {rung} LIMIT 1;
