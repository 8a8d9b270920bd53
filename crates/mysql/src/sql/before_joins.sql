SELECT COALESCE((SELECT expires > @t_now FROM tidelock_session WHERE id = {me}), 0) INTO @t_alive;
SELECT EXISTS (SELECT 1 FROM tidelock_claim c STRAIGHT_JOIN tidelock_session s ON s.id = c.session
  WHERE c.name = {name} AND c.state = 1 AND s.expires > @t_now) INTO @t_waiting;
