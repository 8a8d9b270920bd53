UPDATE tidelock_session SET expires = {now} + ttl WHERE id = {me} AND expires > {now};
