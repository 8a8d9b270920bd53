DELETE FROM tidelock_session WHERE id = {session} AND expires + {age} < {now};
DELETE FROM tidelock_bell WHERE session = {session}
  AND NOT EXISTS (SELECT 1 FROM tidelock_session WHERE id = {session});
