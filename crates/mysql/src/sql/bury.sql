-- Takes claims of a client out that has not renewed in time. Its row is changed first: either a renewal came before,
-- and then its claims stay, or none can come any more. A user's transaction may have the holder of a mutex by now: then
-- they stay this time, because nothing here waits for that transaction.
UPDATE tidelock_session SET expires = 0 WHERE id = {session} AND expires <= @t_now;
SELECT NOT EXISTS (SELECT 1 FROM tidelock_session WHERE id = {session} AND expires > 0) INTO @t_dead;
SELECT (SELECT number FROM tidelock_claim WHERE name = {name} AND state = 0 AND weight > 0 AND session = {session}
  AND number IN ({numbers}) AND @t_kind = 1 LIMIT 1) INTO @t_holder;
SET @t_one = NULL;
SELECT number INTO @t_one FROM tidelock_claim FORCE INDEX (claim)
WHERE session = {session} AND number = @t_holder FOR UPDATE SKIP LOCKED;
SET @t_dead = @t_dead AND (@t_holder IS NULL OR @t_one IS NOT NULL);
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = IF(@t_dead, {session}, 0) AND c.number IN ({numbers}) AND c.state < 2;
