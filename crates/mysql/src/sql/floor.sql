-- The time, the least token of a name without a row, and the caller, or nobody if it is dead. The floor is locked: nobody
-- drops such a row between this and what is taken next.
SELECT {now}, GREATEST({now} DIV 10, COALESCE((SELECT token + 1 FROM tidelock_floor WHERE id = 1 LOCK IN SHARE MODE), 0)),
  COALESCE((SELECT s.id FROM tidelock_session s WHERE s.expires > {now} AND s.id = {me}), 0)
INTO @t_since, @t_least, @t_me;
