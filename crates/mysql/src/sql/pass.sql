-- Leaves mutexes whose claims are in rows, and passes each free one to its first waiter whose client lives. Says who
-- was granted, and rings for the clients that do not hear this. An UPDATE of two tables locks what it reads, so that one must
-- not read slots: it would wait for a user's transaction. The indexes are named, here and wherever rows of this table are
-- locked: a scan of a small table would lock all of them. Whether a client lives is asked claim by claim: a join of the two
-- tables would read and sort the whole line.
SELECT 'p', name FROM tidelock_line WHERE name IN ({names}) AND spilled = 1 AND kind = 1 FOR UPDATE;
SET @t_now = {now};
SELECT 'm', number, IF({counts tidelock_claim}, state, 3) FROM tidelock_claim WHERE session = {me} AND number IN ({numbers}) AND name IN ({names}) AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = {me} AND c.number IN ({numbers}) AND c.name IN ({names}) AND c.state < 2;
SELECT GROUP_CONCAT(HEX(l.name)) INTO @t_free FROM tidelock_line l
WHERE l.name IN ({names}) AND l.spilled = 1 AND l.kind = 1
  AND NOT EXISTS (SELECT 1 FROM tidelock_claim h WHERE h.name = l.name AND h.state = 0 AND {counts h});
UPDATE tidelock_claim c FORCE INDEX (PRIMARY) JOIN (
  SELECT l.name, GREATEST(l.token + 1, @t_now DIV 10) AS token, (
    SELECT w.place FROM tidelock_claim w FORCE INDEX (PRIMARY) WHERE w.name = l.name AND w.state = 1
      AND (SELECT s.expires FROM tidelock_session s WHERE s.id = w.session) > @t_now ORDER BY w.place LIMIT 1) AS place
  FROM tidelock_line l WHERE l.name IN ({names}) AND FIND_IN_SET(HEX(l.name), @t_free)
) free ON c.name = free.name AND c.state = 1 AND c.place = free.place JOIN tidelock_line l ON l.name = free.name
SET c.state = 0, c.token = free.token, c.since = @t_now, l.token = free.token;
SELECT 'h', session, number, token FROM tidelock_claim WHERE name IN ({names}) AND state = 0 AND {counts tidelock_claim}
  AND token >= @t_now DIV 10;
INSERT INTO tidelock_bell (session, rung)
SELECT DISTINCT session, 1 FROM tidelock_claim
WHERE name IN ({names}) AND state = 0 AND {counts tidelock_claim} AND token >= @t_now DIV 10 AND session <> {me}
ON DUPLICATE KEY UPDATE rung = tidelock_bell.rung + 1;
UPDATE tidelock_line SET spilled = EXISTS (
  SELECT 1 FROM tidelock_claim c WHERE c.name = tidelock_line.name AND {counts c})
WHERE name IN ({names}) AND spilled = 1;
SELECT 'q', l.name, l.kind, l.spilled, EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state = 1)
  AND NOT EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = l.name AND c.state = 0 AND {counts c})
FROM tidelock_line l WHERE l.name IN ({names});
