DELETE FROM tidelock_claim WHERE session = {me} AND state = 2 AND since + {age} < {now};
