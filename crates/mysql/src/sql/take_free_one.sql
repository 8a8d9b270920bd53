-- The row of a single join, if its client lives. Unlike in VALUES, this reads without a lock.
SELECT {row} FROM tidelock_session s WHERE s.expires > {now} AND s.id = {me}
