SELECT 'l', session, number, state FROM tidelock_claim WHERE session = {session} AND number IN ({numbers}) AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim) WHERE c.session = {session} AND c.number IN ({numbers}) AND c.state < 2;
