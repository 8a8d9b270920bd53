-- A row that can be locked: its transaction was rolled back. One that is not there: its transaction was committed.
SELECT 'u', number FROM tidelock_claim WHERE session = {me} AND number IN ({numbers}) FOR UPDATE SKIP LOCKED;
SELECT 'v', number FROM tidelock_claim WHERE session = {me} AND number IN ({numbers});
