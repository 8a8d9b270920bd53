-- Takes claims of a client out that has not renewed in time. Its row is changed first: either a renewal came before,
-- and then its claims stay, or none can come any more.
UPDATE tidelock_session SET expires = 0 WHERE id = {session} AND expires <= @t_now;
SELECT NOT EXISTS (SELECT 1 FROM tidelock_session WHERE id = {session} AND expires > 0) INTO @t_dead;
DELETE c FROM tidelock_claim c FORCE INDEX (claim)
WHERE c.session = IF(@t_dead, {session}, 0) AND c.number IN ({numbers}) AND c.state < 2;
