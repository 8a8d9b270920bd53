-- leave: takes one claim out of the line, wherever it stands, and grants the waiters that fit now.
-- KEYS held line wait    ARGV "claim " [done|void caller ttl]; without these its own client asks, and means done
-- replies held, or the message about the caller's own next grant, or {held | waiting | absent, the caller's grants};
-- other clients are told on their channels.
-- Absent is success: a leave may be repeated, or come after the claim's lifetime ended. A void leave also keeps the
-- claim from coming alive if its join arrives later.
--
-- This file is the fast path: the only holder leaves, and either nobody waits, or claims wait for a mutex. Nearly all
-- leaves of most programs end here, so it does without everything that the other cases need. record.rs explains what it
-- reads and writes.
--
-- It runs once. Each case ends with a return. `break` leaves the claim to the code after this file, which handles every
-- case; before a `break` nothing is removed but dead waiters.
repeat
  if ARGV[2] then break end -- void, or asked by another client
  local one = redis.call('HGET', KEYS[1], 'one')
  if not one or string.sub(one, ONE_CLAIM, ONE_CLAIM - 1 + #ARGV[1]) ~= ARGV[1] then break end -- not the only holder
  local sub, find, byte, waits = string.sub, string.find, string.byte, string.byte(one, ONE_WAITS)

  local function write(value)
    if redis.pcall('HSET', KEYS[1], 'one', value) ~= 0 then -- a server with full memory refuses only the first write
      redis.call('HDEL', KEYS[1], '-')                      -- of a script, so never this second HSET
      redis.call('HSET', KEYS[1], 'one', value)
    end
  end

  -- Nobody waits: only the newest token stays.
  if waits == NOBODY_BYTE or waits == NO_MUTEX_BYTE then
    write(sub(one, 1, ONE_FRESH_END))
    return 'held'
  end

  -- Finds the first waiter that is alive, at the line feed `at`. Dead ones before it are skipped.
  local time = known_time or redis.call('TIME')
  local tick = #time[2] == 6 and sub(time[1] .. time[2], 1, ONE_TOKEN_END) or time[1] .. sub('00000' .. time[2], -6, -2)
  local at, fetches = find(one, '\n', ONE_CLAIM, true), 0
  while not at or sub(one, at + WAITER_PLACE, at + WAITER_PLACE_END)
    + sub(one, at + WAITER_LASTS, at + WAITER_LASTS_END) * TICKS - tick <= 0 do
    if at then
      at = find(one, '\n', at + 1, true) -- skip a dead waiter
    elseif waits ~= IN_LINE_BYTE then -- all of them are dead
      write(sub(one, 1, ONE_FRESH_END))
      return 'held'
    elseif fetches == FETCHES then
      break
    else -- move the first four of `line` into `one`
      fetches = fetches + 1
      local first, sessions, here = redis.call('ZPOPMIN', KEYS[2], '4'), {}, ''
      for i = 1, #first, 2 do
        sessions[#sessions + 1] = 'LIVES' .. sub(first[i], 1, CLAIM_SESSION_END)
      end
      local lives = first[1] and redis.call('HMGET', KEYS[3], unpack(sessions))
      local known = string.match(one, '\t.*', ONE_CLAIM) or ''
      for i = 1, #sessions do
        local life, claim, place = lives[i], first[2 * i - 1], first[2 * i]
        local is_marked = life and byte(life, LIFE_BORN) == BORN_BYTE
        if not life then
          known = '' -- `wait` was evicted
        elseif not is_marked or sub(life, LIFE_PLACE, LIFE_PLACE_END) <= place then -- else it is dead
          local from, lasts = sub(life, 1, LIFE_FROM_END), sub(life, LIFE_LASTS, LIFE_LASTS_END)
          if from > place then lasts = string.format('LASTS_FORM', (from - place) / TICKS + 1 + lasts) end
          here = here .. '\n' .. place .. ' ' .. lasts .. ' MUTEX ' .. claim
            .. sub(life, is_marked and LIFE_PLACE_END + 1 or LIFE_BORN)
        end
      end
      if #sessions < 4 or not redis.call('ZRANGE', KEYS[2], '0', '0')[1] then
        redis.call('DEL', KEYS[3])
        waits, known = IN_ONE_BYTE, ''
      end
      one = sub(one, 1, ONE_WAITS - 1) .. string.char(waits) .. ' ' .. here .. known
      at = find(one, '\n', ONE_WAITS + 1, true)
    end
  end
  if not at then break end -- so many dead waiters: the code after this file removes them faster

  -- It holds from now on: its line, unchanged, takes the holder's place.
  local token = tick
  if one >= tick then token = string.format('TICK_FORM', sub(one, 1, ONE_TOKEN_END) + 1) end
  write(token .. sub(one, ONE_TOKEN_END + 1, ONE_PLACE - 1) .. sub(one, at + 1))
  local session = sub(one, at + WAITER_SESSION, at + WAITER_SESSION_END)
  local number = sub(one, at + WAITER_NUMBER, find(one, ' ', at + WAITER_NUMBER, true)) -- with the space behind it
  local word = 'held ' .. number .. token .. ' 1'
  if session == sub(ARGV[1], 1, CLAIM_SESSION_END) then
    return word
  end
  redis.call('PUBLISH', sub(KEYS[1], 1, find(KEYS[1], '{', 1, true) - 1) .. session, word)
  return 'held'
until true

local caller -- leave.lua sets it

