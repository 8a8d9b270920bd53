SET @t_alive = COALESCE((SELECT expires > @t_now FROM tidelock_session WHERE id = {me}), 0);
SET @t_waiting = EXISTS (SELECT 1 FROM tidelock_claim c JOIN tidelock_session s ON s.id = c.session
  WHERE c.name = {name} AND c.state = 1 AND s.expires > @t_now);
