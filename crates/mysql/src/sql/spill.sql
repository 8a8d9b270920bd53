-- The only holder becomes a row like all others, and so do those who wait behind it. The state of the line is read. The
-- time is read behind the lock.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT name, 0, place + 1, session, number, weight, token, since
FROM tidelock_line WHERE name = {name} AND spilled = 0 AND session <> 0;
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT w.name, 1, w.place + 1 + w.nth, CAST(SUBSTR(w.waiter, 18, 20) AS UNSIGNED),
  CAST(SUBSTRING_INDEX(w.waiter, '.', -1) AS UNSIGNED), 1, 0, CAST(SUBSTR(w.waiter, 1, 16) AS UNSIGNED)
FROM (SELECT l.name, l.place, n.slot AS nth, SUBSTRING_INDEX(SUBSTRING_INDEX(l.waiters, ':', n.slot), ':', -1) AS waiter
  FROM tidelock_line l JOIN tidelock_slot n ON n.slot <= LENGTH(l.waiters) - LENGTH(REPLACE(l.waiters, ':', ''))
  WHERE l.name = {name} AND l.spilled = 0) w;
UPDATE tidelock_line SET place = place + IF(spilled = 0, 1 + LENGTH(waiters) - LENGTH(REPLACE(waiters, ':', '')), 0),
  spilled = 1, session = 0, waiters = '' WHERE name = {name};
SELECT {now}, COALESCE(MAX(kind), 0), COALESCE(MAX(capacity), 0), GREATEST(COALESCE(MAX(token), 0),
  COALESCE((SELECT token FROM tidelock_floor WHERE id = 1), 0)), COALESCE(MAX(place), 0)
INTO @t_now, @t_kind, @t_capacity, @t_token, @t_place FROM tidelock_line WHERE name = {name};
SET @t_base = GREATEST(@t_token + 1, @t_now DIV 10);
