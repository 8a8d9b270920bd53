DELETE FROM tidelock_session WHERE id = {session} AND expires + {age} < {now};
DELETE FROM tidelock_bell WHERE session = {session};
DELETE FROM tidelock_claim WHERE session = {session} AND state = 2;
