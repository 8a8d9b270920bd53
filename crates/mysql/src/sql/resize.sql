SELECT EXISTS (SELECT 1 FROM tidelock_claim WHERE name = {name} AND state < 2 AND {counts tidelock_claim}) INTO @t_used;
SELECT EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = {name} AND c.state = 1 AND c.weight > {to}
  AND (SELECT s.expires FROM tidelock_session s WHERE s.id = c.session) > @t_now) INTO @t_stuck;
SELECT 'r', @t_used, @t_kind, @t_capacity, @t_stuck;
SET @t_capacity = IF(@t_used AND @t_kind = 3 AND @t_capacity = {from} AND NOT @t_stuck, {to}, @t_capacity);
