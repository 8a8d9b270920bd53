-- confirm: writes to the line of a claim that is held, so that its client can ask which replicas have that write, and
-- with it the grant before it.
-- KEYS held    ARGV session claim token idle
-- replies 1, or 0 where the claim is not held under that token, or its lifetime is over: then nothing is written.
local found = redis.call('HMGET', KEYS[1], 'h:' .. ARGV[2], 's:' .. ARGV[1], 'line')
if not found[1] or not found[2] or string.match(found[1], '^%d+ (%d+)') ~= ARGV[3] then
  return 0
end
local from, lasts = string.match(found[2], '^(%d+) (%d+)')
local time = redis.call('TIME')
if from + lasts * 100 <= tonumber(time[1] .. string.format('%05d', time[2] / 10)) then
  return 0
end
local longest = found[3] and string.match(found[3], '^%d+ %d+ (%d+)') or 0
-- Replicas are sent this whatever the expiry was, and a server whose memory is full does not refuse it.
redis.call('PEXPIRE', KEYS[1], math.max(longest * 2, tonumber(ARGV[4])))
return 1
