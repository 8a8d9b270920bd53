-- renew: renews one client's lifetime on one name, however many claims it has there.
-- KEYS held line wait    ARGV session ttl, of eleven digits
-- replies "claims sum waits": how many claims the session holds, the sum of their numbers, and 0 if none of its claims
-- can be waiting. If count and sum are what the client expects, it has lost nothing and forgotten nothing.
-- A claim whose lifetime is over stays dead, whether it holds or waits.
local held, line, wait, session, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local tick = time[1] .. string.sub('00000' .. time[2], -6, -2)
local claims, sum, waiting, longest = 0, '0', 0, 0

local one = redis.call('HGET', held, 'one')
local found = one and {} or redis.call('HMGET', held, 's:' .. session, 'seq', 'line', 'last')
local waits = (found[2] or one and string.byte(one, 28) == 122) and redis.call('HGET', wait, 's:' .. session)

-- A renewal does not revive waiting claims whose lifetime is over: they stay before `born`.
local born, label, are_buried = '', '', false
if waits then
  local from, lasts
  from, lasts, born, label = string.match(waits, '^(%d+) (%d+)(%+?%d*)( .*)$')
  are_buried = from + lasts * 100 - tick <= 0
  if are_buried then
    born = '+' .. string.format('%015.0f', tick - lasts * 100 + 1)
  end
end

-- The length of a lifetime that is counted from `place` and is renewed now.
local function lasts_from(place)
  return string.format('%011.0f', math.max(tick - place, 0) / 100 + 1 + ttl)
end

local function keep()
  local newest = one and string.sub(one, 1, 15) or found[4] or tick -- may be ahead of the clock, if that was set back
  local life = math.max(7200000, longest * 4) + math.ceil(math.max(newest - tick, 0) / 100)
  redis.call('PEXPIRE', held, life)
  redis.call('PEXPIRE', line, life)
  redis.call('PEXPIRE', wait, life)
end

if one and #one > 26 then
  local is_old = string.sub(one, 17, 26) <= time[1]
  if is_old then
    keep()
    one = string.match(one, '^[^\t]*') -- the list of sessions in `wait` is trusted for no longer either
  elseif are_buried then
    one = string.gsub(one, '\t' .. session, '')
  end
  local behind = string.find(one, '\n', 60, true) or #one + 1
  local head, rest = string.sub(one, 1, behind - 1), string.sub(one, behind)
  local is_mine = string.sub(head, 60, 75) == session
  if is_mine and string.sub(head, 30, 44) + string.sub(head, 46, 56) * 100 - tick > 0 then
    claims, sum = 1, string.match(head, '^%d+', 77)
    head = string.sub(head, 1, 45) .. lasts_from(string.sub(head, 30, 44)) .. string.sub(head, 57)
  end
  rest = string.gsub(rest, '(\n)(%d+) (%d+)( m ' .. session .. ')', function(feed, place, lasts, who)
    if place + lasts * 100 - tick > 0 then
      waiting = waiting + 1
      return feed .. place .. ' ' .. lasts_from(place) .. who
    end
  end)
  if is_old then
    head = string.sub(head, 1, 16) .. time[1] + 3600 .. string.sub(head, 27)
  end
  if (claims > 0 or waiting > 0 or is_old or are_buried) and redis.pcall('HSET', held, 'one', head .. rest) ~= 0 then
    redis.call('HDEL', held, '-') -- a server with full memory refuses only the first write of a script
    redis.call('HSET', held, 'one', head .. rest)
  end
end
-- PEXPIRE comes first: a server with full memory refuses only the first write of a script, and never a PEXPIRE.
if found[1] or waits then
  longest = found[3] and string.match(found[3], '^%d+ %d+ (%d+)') or 0
  keep()
end
if found[1] then
  local from, lasts, count, numbers, label = string.match(found[1], '^(%d+) (%d+) (%d+) (%d+)( .*)$')
  if from + lasts * 100 - tick > 0 then
    redis.call('HSET', held, 's:' .. session, tick .. ' ' .. ttl .. ' ' .. count .. ' ' .. numbers .. label)
    claims, sum = count, numbers
  end
end
if waits then
  redis.call('HSET', wait, 's:' .. session, tick .. ' ' .. ttl .. born .. label)
  waiting = waiting + 1
end
return claims .. ' ' .. sum .. ' ' .. waiting
