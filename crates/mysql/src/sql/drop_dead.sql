-- Not before all its claims are gone: nobody would find them any more.
DELETE FROM tidelock_session WHERE id = {session} AND expires + {age} < {now}
  AND NOT EXISTS (SELECT 1 FROM tidelock_claim WHERE session = {session});
DELETE FROM tidelock_bell WHERE session = {session}
  AND NOT EXISTS (SELECT 1 FROM tidelock_session WHERE id = {session});
