-- The row can be locked: the transaction was rolled back. It is not there: the transaction was committed.
SELECT 'u' FROM tidelock_claim WHERE session = {me} AND number = {number} FOR UPDATE SKIP LOCKED;
SELECT 'v' FROM tidelock_claim WHERE session = {me} AND number = {number};
