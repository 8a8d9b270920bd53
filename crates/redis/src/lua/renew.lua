-- renew: renews one client's lifetime on one name, however many claims it has there.
-- KEYS held line wait    ARGV session ttl, of eleven digits
-- replies "claims sum waits": how many claims the session holds, the sum of their numbers, and 0 if none of its claims
-- can be waiting. If count and sum are what the client expects, it has lost nothing and forgotten nothing; of several
-- claims others can have the same sum, so core asks for these by a look when another server may answer.
-- A claim whose lifetime is over stays dead, whether it holds or waits.
local held, line, wait, session, ttl = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local time = redis.call('TIME')
local tick = time[1] .. string.sub('00000' .. time[2], -6, -2)
local claims, sum, waiting, longest = 0, '0', 0, 0

local one = redis.call('HGET', held, 'one')
local found = one and {} or redis.call('HMGET', held, 'LIVES' .. session, 'seq', 'line', 'last')
local waits = (found[2] or one and string.byte(one, ONE_WAITS) == IN_LINE_BYTE)
  and redis.call('HGET', wait, 'LIVES' .. session)

-- A renewal does not revive waiting claims whose lifetime is over: they stay before `born`.
local born, label, are_buried = '', '', false
if waits then
  local from, lasts
  from, lasts, born, label = string.match(waits, '^(%d+) (%d+)(%BORN?%d*)( .*)$')
  are_buried = from + lasts * TICKS - tick <= 0
  if are_buried then
    born = 'BORN' .. string.format('TICK_FORM', tick - lasts * TICKS + 1)
  end
end

-- The length of a lifetime that is counted from `place` and is renewed now.
local function lasts_from(place)
  return string.format('LASTS_FORM', math.max(tick - place, 0) / TICKS + 1 + ttl)
end

local function keep()
  -- may be ahead of the clock, if that was set back
  local newest = one and string.sub(one, 1, ONE_TOKEN_END) or found[4] or tick
  local life = math.max(KEPT, longest * 4) + math.ceil(math.max(newest - tick, 0) / TICKS)
  redis.call('PEXPIRE', held, life)
  redis.call('PEXPIRE', line, life)
  redis.call('PEXPIRE', wait, life)
end

if one and #one > ONE_FRESH_END then -- somebody holds
  local is_old = string.sub(one, ONE_FRESH, ONE_FRESH_END) <= time[1]
  if is_old then
    keep()
    one = string.match(one, '^[^\t]*') -- the list of sessions in `wait` is trusted for no longer either
  elseif are_buried then
    one = string.gsub(one, '\t' .. session, '')
  end
  local behind = string.find(one, '\n', ONE_CLAIM, true) or #one + 1
  local head, rest = string.sub(one, 1, behind - 1), string.sub(one, behind)
  local is_mine = string.sub(head, ONE_CLAIM, ONE_SESSION_END) == session
  local place = string.sub(head, ONE_PLACE, ONE_PLACE_END)
  if is_mine and place + string.sub(head, ONE_LASTS, ONE_LASTS_END) * TICKS - tick > 0 then
    claims, sum = 1, string.match(head, '^%d+', ONE_NUMBER)
    head = string.sub(head, 1, ONE_LASTS - 1) .. lasts_from(place) .. string.sub(head, ONE_LASTS_END + 1)
  end
  rest = string.gsub(rest, '(\n)(%d+) (%d+)( MUTEX ' .. session .. ')', function(feed, place, lasts, who)
    if place + lasts * TICKS - tick > 0 then
      waiting = waiting + 1
      return feed .. place .. ' ' .. lasts_from(place) .. who
    end
  end)
  if is_old then
    head = string.sub(head, 1, ONE_FRESH - 1) .. time[1] + TRUSTED .. string.sub(head, ONE_FRESH_END + 1)
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
  if from + lasts * TICKS - tick > 0 then
    redis.call('HSET', held, 'LIVES' .. session, tick .. ' ' .. ttl .. ' ' .. count .. ' ' .. numbers .. label)
    claims, sum = count, numbers
  end
end
if waits then
  redis.call('HSET', wait, 'LIVES' .. session, tick .. ' ' .. ttl .. born .. label)
  waiting = waiting + 1
end
return claims .. ' ' .. sum .. ' ' .. waiting
