SELECT 'l', session, number, state FROM tidelock_claim WHERE session = {session} AND number IN ({numbers}) AND state < 2;
DELETE FROM tidelock_claim WHERE session = {session} AND number IN ({numbers}) AND state < 2;
