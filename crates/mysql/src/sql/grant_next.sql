-- A free mutex goes to the first waiter whose client lives.
SELECT IF(@t_kind = 1 AND @t_holders = 0, (
  SELECT c.place FROM tidelock_claim c WHERE c.name = {name} AND c.state = 1
    AND (SELECT s.expires FROM tidelock_session s WHERE s.id = c.session) > @t_now ORDER BY c.place LIMIT 1), NULL) INTO @t_next;
UPDATE tidelock_claim FORCE INDEX (PRIMARY) SET state = 0, token = @t_base, since = @t_now
WHERE name = {name} AND state = 1 AND place = @t_next;
