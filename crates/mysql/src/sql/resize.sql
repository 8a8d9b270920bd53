SELECT EXISTS (SELECT 1 FROM tidelock_claim WHERE name = {name} AND state < 2) INTO @t_used;
SELECT EXISTS (SELECT 1 FROM tidelock_claim c JOIN tidelock_session s ON s.id = c.session
  WHERE c.name = {name} AND c.state = 1 AND c.weight > {to} AND s.expires > @t_now) INTO @t_stuck;
SELECT 'r', @t_used, @t_kind, @t_capacity, @t_stuck;
SET @t_capacity = IF(@t_used AND @t_kind = 3 AND @t_capacity = {from} AND NOT @t_stuck, {to}, @t_capacity);
