-- confirm: writes to the line of a held claim. Its client can then ask which replicas have that write, and with it the
-- earlier grant.
-- KEYS held line wait    ARGV session claim token
-- replies 1; or 0 if the claim is not held under that token or its lifetime is over. Then nothing is written.
local found = redis.call('HMGET', KEYS[1], 'HOLDS' .. ARGV[2], 'LIVES' .. ARGV[1], 'line', 'one', 'last')
local token, from, lasts, longest
if found[4] then
  local order, place, rest, claim = string.match(found[4], '^(%d+) %d+ . (%d+) (%d+) . (%S+) ')
  if claim == ARGV[2] then
    token, from, lasts, longest = order, place, rest, SHORT
  end
elseif found[1] and found[2] then
  token = string.match(found[1], '^%d+ (%d+)')
  from, lasts = string.match(found[2], '^(%d+) (%d+)')
  longest = string.match(found[3] or '', '^%d+ %d+ (%d+)') or 0
end
local time = redis.call('TIME')
local tick = tonumber(time[1] .. string.sub('00000' .. time[2], -6, -2))
if token ~= ARGV[3] or from + lasts * TICKS <= tick then
  return 0
end
local ahead = math.ceil(math.max((found[5] or token) - tick, 0) / TICKS) -- the token is ahead if the clock was set back
-- PEXPIRE goes to the replicas whatever the expiry was before, and a server with full memory does not refuse it.
redis.call('PEXPIRE', KEYS[1], math.max(longest * 4, KEPT) + ahead)
return 1
