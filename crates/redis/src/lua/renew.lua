-- renew: one client's lifetime on one name, however many claims it has there.
-- KEYS held line wait    ARGV session ttl idle
-- replies {how many claims it holds, the sum of their numbers, 1 if it may be waiting too}: who holds as many as it
-- thinks, of the same sum, has lost nothing, and forgot nothing.
-- A holder whose lifetime is over stays dead; who waits is late, but has not been passed by yet.
local held, line, wait = KEYS[1], KEYS[2], KEYS[3]
local field, ttl = 's:' .. ARGV[1], ARGV[2]
local found = redis.call('HMGET', held, field, 'seq', 'line')
local time = redis.call('TIME')
local tick = time[1] .. string.format('%05d', time[2] / 10)
local claims, sum = 0, 0

local waits = found[2] and redis.call('HGET', wait, field)
local longest = found[3] and string.match(found[3], '^%d+ %d+ (%d+)') or 0
-- This comes first: a server whose memory is full refuses only the first write of a script, and never this one.
if found[1] or waits then
  redis.call('PEXPIRE', held, math.max(longest * 2, tonumber(ARGV[3])))
end
if found[1] then
  local from, lasts, count, numbers, label = string.match(found[1], '^(%d+) (%d+) (%d+) (%d+)( .*)$')
  if from + lasts * 100 > tonumber(tick) then
    redis.call('HSET', held, field, tick .. ' ' .. ttl .. ' ' .. count .. ' ' .. numbers .. label)
    claims, sum = tonumber(count), tonumber(numbers)
  end
end
if waits then
  redis.call('HSET', wait, field, tick .. ' ' .. ttl .. string.match(waits, '^%d+ %d+( .*)$'))
  redis.call('PEXPIRE', line, longest * 2)
  redis.call('PEXPIRE', wait, longest * 2)
end
return { claims, sum, waits and 1 or 0 }
