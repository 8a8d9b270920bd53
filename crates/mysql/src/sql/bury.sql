-- Takes claims of a client out that has not renewed in time. Its row is changed first: either a renewal came before,
-- and then its claims stay, or none can come any more. A user's transaction may have the holder of a mutex: then they stay
-- this time, because nothing here waits for that transaction. If they go, no transaction can have them any more: the slot
-- gets a new stamp.
UPDATE tidelock_session SET expires = 0 WHERE id = {session} AND expires <= @t_now;
SELECT NOT EXISTS (SELECT 1 FROM tidelock_session WHERE id = {session} AND expires > 0) INTO @t_dead;
SELECT (SELECT c.slot FROM tidelock_claim c WHERE c.name = {name} AND c.state = 0 AND c.session = {session}
  AND c.number IN ({numbers}) AND c.slot > 0 AND {counts c} LIMIT 1) INTO @t_slot;
SET @t_one = NULL;
SELECT slot INTO @t_one FROM tidelock_slot WHERE slot = @t_slot FOR UPDATE SKIP LOCKED;
SET @t_dead = @t_dead AND (@t_slot IS NULL OR @t_one IS NOT NULL);
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = IF(@t_dead, {session}, 0) AND c.number IN ({numbers}) AND c.state < 2;
UPDATE tidelock_slot SET stamp = stamp + 1 WHERE slot = @t_one AND @t_dead;
