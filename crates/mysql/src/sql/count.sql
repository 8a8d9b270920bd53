SELECT COALESCE(SUM(weight), 0), COUNT(*), GREATEST(@t_token, COALESCE(MAX(token), 0))
INTO @t_used, @t_holders, @t_token FROM tidelock_claim WHERE name = {name} AND state = 0 AND {counts tidelock_claim};
