-- The rows that can be locked: their transactions have ended. And all that are there: the others were evicted.
SELECT 'u', number FROM tidelock_claim FORCE INDEX (claim)
WHERE session = {me} AND number IN ({numbers}) FOR UPDATE SKIP LOCKED;
SELECT 'v', number FROM tidelock_claim WHERE session = {me} AND number IN ({numbers});
