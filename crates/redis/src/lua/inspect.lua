-- inspect: reads the whole line, for operators.
-- KEYS held line wait
-- replies {the time in ticks, held, line with places, wait}.
local time = redis.call('TIME')
return {
  time[1] .. string.sub('00000' .. time[2], -6, -2),
  redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', KEYS[3]),
}
