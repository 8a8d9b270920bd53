-- After the clock was set back, a lifetime ends a ttl from now at the latest.
UPDATE tidelock_session SET expires = {now} + ttl WHERE id = {session} AND expires > {now} + ttl;
