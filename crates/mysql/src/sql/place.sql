SELECT 'x', place FROM tidelock_claim WHERE session = {me} AND number = {number} AND state = 0;
