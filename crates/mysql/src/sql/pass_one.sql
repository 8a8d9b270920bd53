-- pass, for a single name: the usual case, at less than half the cost. Also says if the caller itself holds it: the answer
-- that told so may have been lost.
SET @t_token = NULL;
SELECT token INTO @t_token FROM tidelock_line WHERE name = {name} AND spilled = 1 AND kind = 1 FOR UPDATE;
SET @t_now = {now};
SELECT 'm', number, IF({counts tidelock_claim}, state, 3) FROM tidelock_claim WHERE session = {me} AND number IN ({numbers}) AND name = {name} AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = {me} AND c.number IN ({numbers}) AND c.name = {name} AND c.state < 2;
SELECT IF(@t_token IS NULL OR EXISTS (SELECT 1 FROM tidelock_claim h WHERE h.name = {name} AND h.state = 0 AND {counts h}), NULL, (
  SELECT w.place FROM tidelock_claim w FORCE INDEX (PRIMARY) WHERE w.name = {name} AND w.state = 1
    AND (SELECT s.expires FROM tidelock_session s WHERE s.id = w.session) > @t_now ORDER BY w.place LIMIT 1)) INTO @t_next;
UPDATE tidelock_line l SET l.token = IF(@t_next IS NULL, l.token, GREATEST(l.token + 1, @t_now DIV 10)), l.spilled = EXISTS (
  SELECT 1 FROM tidelock_claim c WHERE c.name = {name} AND {counts c})
WHERE l.name = {name} AND l.spilled = 1 AND @t_token IS NOT NULL;
UPDATE tidelock_claim FORCE INDEX (PRIMARY) SET state = 0, token = GREATEST(@t_token + 1, @t_now DIV 10), since = @t_now
WHERE name = {name} AND state = 1 AND place = @t_next;
SELECT 'h', session, number, token FROM tidelock_claim WHERE name = {name} AND state = 0 AND (place = @t_next OR session = {me})
  AND @t_token IS NOT NULL AND {counts tidelock_claim};
INSERT INTO tidelock_bell (session, rung)
SELECT session, 1 FROM tidelock_claim WHERE name = {name} AND state = 0 AND place = @t_next AND session <> {me}
ON DUPLICATE KEY UPDATE rung = tidelock_bell.rung + 1;
SELECT 'q', l.name, l.kind, l.spilled, @t_next IS NULL AND EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = {name} AND c.state = 1)
  AND NOT EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = {name} AND c.state = 0 AND {counts c}), @t_token IS NOT NULL
FROM tidelock_line l WHERE l.name = {name};
