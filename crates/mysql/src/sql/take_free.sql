-- Takes free names: those without any claim. A name whose claims are in rows (spilled) stays as it is, and so does one
-- with a holder; the row then says whose it is, and who waits. A client that is dead takes nothing.
INSERT INTO tidelock_line (name, kind, capacity, token, session, number, weight, since) {rows}
ON DUPLICATE KEY UPDATE
  waiters = {waiters},
  kind = IF(spilled = 0 AND session = 0, VALUES(kind), kind),
  capacity = IF(spilled = 0 AND session = 0, VALUES(capacity), capacity),
  token = IF(spilled = 0 AND session = 0, GREATEST(token + 1, VALUES(token)), token),
  number = IF(spilled = 0 AND session = 0, VALUES(number), number),
  weight = IF(spilled = 0 AND session = 0, VALUES(weight), weight),
  since = IF(spilled = 0 AND session = 0, VALUES(since), since),
  session = IF(spilled = 0 AND session = 0, VALUES(session), session);
