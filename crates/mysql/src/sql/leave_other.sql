-- Takes out a claim of another client, as an operator. If a user's transaction has it, it stays: nothing here waits for
-- that transaction.
SET @t_one = NULL;
SELECT number INTO @t_one FROM tidelock_claim FORCE INDEX (claim)
WHERE session = {session} AND number = {number} AND state < 2 FOR UPDATE SKIP LOCKED;
SELECT 'l', session, number, IF(@t_one IS NULL, 9, IF(weight > 0, state, 3)) FROM tidelock_claim
WHERE session = {session} AND number = {number} AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim) WHERE c.session = {session} AND c.number = @t_one AND c.state < 2;
