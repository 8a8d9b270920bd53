SELECT COALESCE((SELECT expires > @t_now FROM tidelock_session WHERE id = {me}), 0) INTO @t_alive;
SELECT EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = {name} AND c.state = 1
  AND (SELECT s.expires FROM tidelock_session s WHERE s.id = c.session) > @t_now) INTO @t_waiting;
