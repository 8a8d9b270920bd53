-- renew: one client's lifetime on one name, however many claims it has there.
-- KEYS held line wait    ARGV session ttl idle
-- replies {how many claims it has, the sum of their numbers}: who counts the same has lost nothing, and forgot nothing.
-- A holder whose lifetime is over stays dead; who waits is late, but has not been passed by yet.
local held, line, wait = KEYS[1], KEYS[2], KEYS[3]
local field, ttl = 's:' .. ARGV[1], ARGV[2]
local found = redis.call('HMGET', held, field, 'seq', 'line')
local time = redis.call('TIME')
local tick = time[1] .. string.format('%05d', time[2] / 10)
local claims, sum = 0, 0

local function renew(key, entry, may_be_late)
  local from, lasts, count, numbers, label = string.match(entry, '^(%d+) (%d+) (%d+) (%d+)( .*)$')
  if from + lasts * 100 <= tonumber(tick) and not may_be_late then
    return
  end
  redis.call('HSET', key, field, tick .. ' ' .. ttl .. ' ' .. count .. ' ' .. numbers .. label)
  claims = claims + count
  sum = sum + numbers
end

local waits = found[2] and redis.call('HGET', wait, field)
local keep = 2 * (found[3] and string.match(found[3], '^%d+ %d+ (%d+)') or 0)
-- This comes first: a server whose memory is full refuses only the first write of a script, and never this one.
if found[1] or waits then
  redis.call('PEXPIRE', held, math.max(keep, tonumber(ARGV[3])))
end
if found[1] then
  renew(held, found[1], false)
end
if waits then
  renew(wait, waits, true)
  redis.call('PEXPIRE', line, keep)
  redis.call('PEXPIRE', wait, keep)
end
return { claims, sum }
