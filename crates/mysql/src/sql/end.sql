UPDATE tidelock_line SET kind = @t_kind, capacity = @t_capacity, token = @t_token, place = @t_place,
  spilled = EXISTS (SELECT 1 FROM tidelock_claim WHERE name = {name} AND {counts tidelock_claim}) WHERE name = {name};
SELECT 'e', @t_now, @t_kind, @t_capacity, @t_holders, (SELECT MIN(COALESCE(s.expires, 0))
  FROM tidelock_claim c LEFT JOIN tidelock_session s ON s.id = c.session WHERE c.name = {name} AND c.state = 0 AND {counts c}),
  EXISTS (SELECT 1 FROM tidelock_claim WHERE name = {name} AND state = 1),
  EXISTS (SELECT 1 FROM tidelock_claim WHERE name = {name} AND {counts tidelock_claim});
