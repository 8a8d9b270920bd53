-- join: puts a claim in line. If it stands there already, replies with its place and renews it.
-- KEYS held line wait    ARGV tail [wait|now [slow]]; the tail is the claim as written in `one`, from its lifetime on
-- replies TOKEN (with the requested capacity) | look_in | refused, or {held, token, size} | {waiting, look_in} |
-- {refused} | {gone} | {kind, kind} | {permits, size}; the fourth element has the caller's other grants.
--
-- This file is the fast path: a name on which nobody stands, and a mutex that is held. Nearly all joins of most
-- programs end here, so it does without everything that the other cases need. record.rs explains what it reads and
-- writes. Calls and long strings are expensive: Lua reads each byte of each string that it creates.
--
-- It runs once. Each case ends with a return. `break` leaves the claim to the code after this file, which handles every
-- case; nothing is written before a `break`.
repeat
  if ARGV[3] then break end -- the client says so: a ttl too long for `one`, or more permits than there are
  local one = redis.call('HGET', KEYS[1], 'one')
  if not one then
    local found = redis.call('HMGET', KEYS[1], 'last', 'void')
    if found[1] or found[2] then break end -- the line has its other form
    one = '' -- nothing is known about this name
  end
  local sub, byte = string.sub, string.byte
  local time = known_time or redis.call('TIME')
  local tick = #time[2] == 6 and sub(time[1] .. time[2], 1, ONE_TOKEN_END) or time[1] .. sub('00000' .. time[2], -6, -2)

  -- Nobody stands here: the claim is held.
  if #one <= ONE_FRESH_END then
    if one >= tick then break end -- the newest token is ahead of the clock
    local fresh = sub(one, ONE_FRESH)
    local is_old = fresh <= time[1]
    if is_old then fresh = time[1] + TRUSTED end
    local waits = (not ARGV[2] or byte(ARGV[1], TAIL_KIND) == MUTEX_BYTE) and ' NOBODY ' or ' NO_MUTEX '
    redis.call('HSET', KEYS[1], 'one', tick .. ' ' .. fresh .. waits .. tick .. ' ' .. ARGV[1])
    if is_old then -- never the first write: after it, a server with full memory would accept the others
      redis.call('PEXPIRE', KEYS[1], 'KEPT')
    end
    return tick
  end

  -- Somebody holds: from here on both are a mutex, and the holder is another claim and alive.
  if ARGV[2] and (byte(ARGV[1], TAIL_KIND) ~= MUTEX_BYTE or ARGV[2] ~= 'now') then break end -- not a mutex
  local waits = byte(one, ONE_WAITS)
  if waits == NO_MUTEX_BYTE then break end
  local soon = sub(one, ONE_PLACE, ONE_PLACE_END) + sub(one, ONE_LASTS, ONE_LASTS_END) * TICKS - tick
  if soon <= 0 then break end -- the holder is dead
  local claim = sub(ARGV[1], TAIL_CLAIM, string.find(ARGV[1], ' ', TAIL_CLAIM, true)) -- with the space behind it
  local fresh = sub(one, ONE_FRESH, ONE_FRESH_END) - time[1]
  if fresh <= 0 or fresh > TRUSTED then break end -- the keys' expiry is due, or the clock was set back
  if sub(one, 1, ONE_TOKEN_END) > tick then break end -- with a token ahead of the clock the keys must live longer
  if string.find(one, claim, ONE_CLAIM, true) then break end -- it stands here already, so it is renewed
  local id = sub(claim, 1, -2)

  -- Without patience it is refused.
  if ARGV[2] then
    if waits == IN_LINE_BYTE and redis.call('ZSCORE', KEYS[2], id) then break end -- it waits already
    return 'refused'
  end

  -- Nobody waits in `line`, and `one` has room: the claim waits there.
  if waits ~= IN_LINE_BYTE and #one < ONE_IS_FULL then
    if waits == NOBODY_BYTE then one = sub(one, 1, ONE_WAITS - 1) .. 'IN_ONE' .. sub(one, ONE_WAITS + 1) end
    redis.call('HSET', KEYS[1], 'one', one .. '\n' .. tick .. ' ' .. ARGV[1])
    return math.ceil(soon / TICKS) + 1
  end

  -- It waits in `line`.
  if waits ~= IN_LINE_BYTE and (redis.call('ZRANGE', KEYS[2], '0', '0')[1] or redis.call('HRANDFIELD', KEYS[3])) then
    break -- the server has evicted `held` alone: the old waiters are forgotten first
  end
  if redis.call('ZADD', KEYS[2], 'NX', tick, id) ~= 1 then break end -- it waits already, or is void; nothing is written
  local session = sub(claim, 1, CLAIM_SESSION_END)
  if waits ~= IN_LINE_BYTE or not string.find(one, '\t' .. session, ONE_CLAIM, true) then
    local lasts, label, born = sub(ARGV[1], 1, TAIL_LASTS_END), sub(ARGV[1], TAIL_CLAIM - 1 + #claim), ''
    if waits == IN_LINE_BYTE then
      local before = redis.call('HGET', KEYS[3], 'LIVES' .. session)
      local lasted = before and sub(before, LIFE_LASTS, LIFE_LASTS_END) * TICKS
      if before and sub(before, 1, LIFE_FROM_END) + lasted <= tonumber(tick) then -- what waits already stays dead
        born = 'BORN' .. string.format('TICK_FORM', tick - lasted + 1)
      elseif before and byte(before, LIFE_BORN) == BORN_BYTE then
        born = sub(before, LIFE_PLACE, LIFE_PLACE_END)
        born = 'BORN' .. (born < tick and born or tick) -- if the clock was set back
      end
    end
    redis.call('HSET', KEYS[3], 'LIVES' .. session, tick .. ' ' .. lasts .. born .. label)
    for i = 1, 3 do -- together, or the waiters would outlive the line
      redis.call('PEXPIRE', KEYS[i], 'KEPT')
    end
    if waits ~= IN_LINE_BYTE or #one < ONE_IS_OVERFULL and born == '' then
      one = sub(one, 1, ONE_WAITS - 1) .. 'IN_LINE' .. sub(one, ONE_WAITS + 1) .. '\t' .. session
      redis.call('HSET', KEYS[1], 'one', one)
    end
  end
  local behind = redis.call('ZRANGE', KEYS[2], '-2', '-1')
  if not behind[2] then -- the server may have evicted `line` alone
    redis.call('PEXPIRE', KEYS[2], 'KEPT')
  elseif behind[2] ~= id then -- the clock stands still, or was set back
    local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
    redis.call('ZADD', KEYS[2], string.format('%.0f', last[2] + 1), id)
  end
  return math.ceil(soon / TICKS) + 1
until true

local caller -- join.lua sets it

