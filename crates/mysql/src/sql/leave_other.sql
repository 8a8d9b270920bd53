-- Takes out a claim of another client, as an operator. If a user's transaction has it, it stays: nothing here waits for
-- that transaction. Otherwise its slot gets a new stamp, so that no transaction can have the claim any more.
SELECT (SELECT c.slot FROM tidelock_claim c WHERE c.session = {session} AND c.number = {number} AND c.name = {name}
  AND c.state = 0 AND c.slot > 0 AND {counts c}) INTO @t_slot;
SET @t_one = NULL;
SELECT slot INTO @t_one FROM tidelock_slot WHERE slot = @t_slot FOR UPDATE SKIP LOCKED;
SET @t_stays = @t_slot IS NOT NULL AND @t_one IS NULL;
SELECT 'l', session, number, IF(@t_stays, 9, IF({counts tidelock_claim}, state, 3)) FROM tidelock_claim
WHERE session = {session} AND number = {number} AND name = {name} AND state < 2;
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = IF(@t_stays, 0, {session}) AND c.number = {number} AND c.name = {name} AND c.state < 2;
UPDATE tidelock_slot SET stamp = stamp + 1 WHERE slot = @t_one;
