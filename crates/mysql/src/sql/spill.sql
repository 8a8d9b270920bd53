-- The only holder becomes a row like all others, and the state of the line is read. The time is read behind the lock.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT name, 0, place + 1, session, number, weight, token, since
FROM tidelock_line WHERE name = {name} AND spilled = 0 AND session <> 0;
UPDATE tidelock_line SET place = place + IF(spilled = 0, 1, 0), spilled = 1, session = 0 WHERE name = {name};
SELECT {now}, COALESCE(MAX(kind), 0), COALESCE(MAX(capacity), 0), GREATEST(COALESCE(MAX(token), 0),
  COALESCE((SELECT token FROM tidelock_floor WHERE id = 1), 0)), COALESCE(MAX(place), 0)
INTO @t_now, @t_kind, @t_capacity, @t_token, @t_place FROM tidelock_line WHERE name = {name};
SET @t_base = GREATEST(@t_token + 1, @t_now DIV 10);
