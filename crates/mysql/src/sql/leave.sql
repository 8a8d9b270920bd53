-- 0 held, 1 waited, 3 has left already.
SELECT 'l', session, number, IF({counts tidelock_claim}, state, 3) FROM tidelock_claim WHERE session = {session} AND number IN ({numbers}) AND name = {name} AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = {session} AND c.number IN ({numbers}) AND c.name = {name} AND c.state < 2;
