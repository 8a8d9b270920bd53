-- inspect: the whole line, for people to look at.
-- KEYS held line wait
-- replies {the time in µs, held, line with places, wait}.
local time = redis.call('TIME')
return {
  string.format('%.0f', time[1] * 1000000 + time[2]),
  redis.call('HGETALL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', KEYS[3]),
}
