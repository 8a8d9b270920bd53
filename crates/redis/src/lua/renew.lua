-- renew: one client's lifetime on one name, however many claims it has there.
-- KEYS held line wait    ARGV session ttl idle
-- replies {how many claims it has, the sum of their numbers}: who counts the same has lost nothing, and forgot nothing.
-- A holder whose lifetime is over stays dead; who waits is late, but has not been passed by yet.
local held, line, wait = KEYS[1], KEYS[2], KEYS[3]
local field, ttl, idle = 's:' .. ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = math.floor((time[1] * 1000000 + time[2]) / 1000)
local known = redis.call('HMGET', held, field, 'seq', 'keep')
local claims, sum = 0, 0

local function renew(key, entry, may_be_late)
  local till, count, numbers, label = string.match(entry, '^(%d+) (%d+) (%d+)( .*)$')
  if tonumber(till) <= now and not may_be_late then
    return
  end
  redis.call('HSET', key, field, string.format('%.0f', now + ttl) .. ' ' .. count .. ' ' .. numbers .. label)
  claims = claims + tonumber(count)
  sum = sum + tonumber(numbers)
end

if known[1] then
  renew(held, known[1], false)
end
local waits = known[2] and redis.call('HGET', wait, field)
if waits then
  renew(wait, waits, true)
  redis.call('PEXPIRE', line, known[3])
  redis.call('PEXPIRE', wait, known[3])
end
if claims > 0 then
  redis.call('PEXPIRE', held, string.format('%.0f', math.max(tonumber(known[3] or 0), idle)))
end
return { claims, sum }
