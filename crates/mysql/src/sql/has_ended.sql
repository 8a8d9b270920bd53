-- The rows that can be locked: their transactions have ended. Then all that are there: the others were evicted. And where
-- somebody waits.
SELECT 'u', number, weight FROM tidelock_claim FORCE INDEX (claim)
WHERE session = {me} AND number IN ({numbers}) FOR UPDATE SKIP LOCKED;
SELECT 'v', number FROM tidelock_claim WHERE session = {me} AND number IN ({numbers});
SELECT DISTINCT 'w', name FROM tidelock_claim WHERE name IN ({names}) AND state = 1;
