-- leave: takes one claim out of the line, wherever it stands, and grants the waiters that fit now.
-- KEYS held line wait    ARGV "claim " [done|void caller ttl]; without these its own client asks, and means done
-- replies held, or the message about the caller's own next grant, or {held | waiting | absent, the caller's grants};
-- other clients are told on their channels.
-- Absent is success: a leave may be repeated, or come after the claim's lifetime ended. A void leave also keeps the
-- claim from coming alive if its join arrives later.
--
-- This file is the fast path: the only holder leaves, and either nobody waits, or claims wait for a mutex. Nearly all
-- leaves of most programs end here, so it does without everything that the other cases need. line.lua explains what it
-- reads and writes.
local one = not ARGV[2] and redis.call('HGET', KEYS[1], 'one')
if one and string.sub(one, 60, 59 + #ARGV[1]) == ARGV[1] then
  local sub, find, byte, waits = string.sub, string.find, string.byte, string.byte(one, 28)

  local function write(value)
    if redis.pcall('HSET', KEYS[1], 'one', value) ~= 0 then -- a server with full memory refuses only the first write
      redis.call('HDEL', KEYS[1], '-')                      -- of a script, so never this second HSET
      redis.call('HSET', KEYS[1], 'one', value)
    end
  end

  if waits == 45 or waits == 61 then -- - or =: nobody waits
    write(sub(one, 1, 26))
    return 'held'
  end
  local time = redis.call('TIME')
  local tick = #time[2] == 6 and sub(time[1] .. time[2], 1, 15) or time[1] .. sub('00000' .. time[2], -6, -2)
  local at, rounds, is_long = find(one, '\n', 60, true), 0
  while not at or sub(one, at + 1, at + 15) + sub(one, at + 17, at + 27) * 100 - tick <= 0 do
    if at then
      at = find(one, '\n', at + 1, true) -- skip a dead waiter
    elseif waits == 122 and rounds == 64 then -- the slow path removes so many dead waiters faster
      is_long = true
      break
    elseif waits == 122 then -- z, some wait in `line`: move the first four into `one`
      rounds = rounds + 1
      local first, sessions, here = redis.call('ZPOPMIN', KEYS[2], '4'), {}, ''
      for i = 1, #first, 2 do
        sessions[#sessions + 1] = 's:' .. sub(first[i], 1, 16)
      end
      local lives = first[1] and redis.call('HMGET', KEYS[3], unpack(sessions))
      local known = string.match(one, '\t.*', 60) or ''
      for i = 1, #sessions do
        local life, claim, place = lives[i], first[2 * i - 1], first[2 * i]
        if not life then
          known = '' -- `wait` was evicted
        elseif byte(life, 28) ~= 43 or sub(life, 29, 43) <= place then -- 43 is +: claims before that place are dead
          local from, lasts = sub(life, 1, 15), sub(life, 17, 27)
          if from > place then lasts = string.format('%011.0f', (from - place) / 100 + 1 + lasts) end
          here = here .. '\n' .. place .. ' ' .. lasts .. ' m ' .. claim .. sub(life, byte(life, 28) == 43 and 44 or 28)
        end
      end
      if #sessions < 4 or not redis.call('ZRANGE', KEYS[2], '0', '0')[1] then
        redis.call('DEL', KEYS[3])
        waits, known = 105, '' -- i: all of them wait in `one`
      end
      one = sub(one, 1, 27) .. string.char(waits) .. ' ' .. here .. known
      at = find(one, '\n', 29, true)
    else
      write(sub(one, 1, 26))
      return 'held'
    end
  end

  if not is_long then
    local token = tick
    if one >= tick then token = string.format('%015.0f', sub(one, 1, 15) + 1) end
    write(token .. sub(one, 16, 29) .. sub(one, at + 1))
    local session = sub(one, at + 31, at + 46)
    local word = 'held ' .. sub(one, at + 48, find(one, ' ', at + 48, true)) .. token .. ' 1'
    if session == sub(ARGV[1], 1, 16) then
      return word
    end
    redis.call('PUBLISH', sub(KEYS[1], 1, find(KEYS[1], '{', 1, true) - 1) .. session, word)
    return 'held'
  end
end

local caller -- leave.lua sets it

