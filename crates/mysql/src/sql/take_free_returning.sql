-- take_free, and what it found (taken), in one statement: MariaDB alone can do that.
INSERT INTO tidelock_line (name, kind, capacity, token, session, number, weight, since) {rows}
ON DUPLICATE KEY UPDATE
  waiters = {waiters},
  kind = IF(spilled = 0 AND session = 0, VALUES(kind), kind),
  capacity = IF(spilled = 0 AND session = 0, VALUES(capacity), capacity),
  token = IF(spilled = 0 AND session = 0, GREATEST(token + 1, VALUES(token)), token),
  number = IF(spilled = 0 AND session = 0, VALUES(number), number),
  weight = IF(spilled = 0 AND session = 0, VALUES(weight), weight),
  since = IF(spilled = 0 AND session = 0, VALUES(since), since),
  session = IF(spilled = 0 AND session = 0, VALUES(session), session)
RETURNING 'n', name, session, number, token, kind, capacity, spilled, {now},
  COALESCE((SELECT s.expires FROM tidelock_session s WHERE s.id = tidelock_line.session), 0), SUBSTRING_INDEX(waiters, ':', -2);
