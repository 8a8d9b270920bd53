-- leave: takes one claim out of the line, wherever it stands, and grants whoever fits now.
-- KEYS held line wait void    ARGV caller channels claim how ttl idle
-- replies {held | waiting | absent, the caller's grants}; other clients are told on their channels.
-- Absent is success: a leave may be repeated, or come after the claim's lifetime ended. A void leave also keeps the
-- claim from coming alive if its join arrives later.
--
-- First the usual: the only one who holds leaves, and nobody waits, or the next one for a mutex. Nearly all leaves of
-- most programs end here, so it does without everything that the others need; what it writes is explained there.
if ARGV[4] == 'done' and string.sub(ARGV[3], 1, 16) == ARGV[1] then
  local mine, session = 'h:' .. ARGV[3], 's:' .. ARGV[1]
  local found = redis.call('HMGET', KEYS[1], 'line', 'seq', mine, 'last')

  local function empty()
    redis.call('HDEL', KEYS[1], 'line', 'seq', mine, session)
    return { 'held' }
  end

  if found[3] then
    local used, longest = string.match(found[1], '^%d+ (%d+) (%d+)')
    if not found[2] and used == string.match(found[3], '^%d+') then
      return empty()
    end
    if found[2] and string.sub(found[1], 1, 4) == '1 1 ' and string.sub(found[1], -5) == 'mutex' then
      local time = redis.call('TIME')
      local tick = time[1] .. string.format('%05d', time[2] / 10)
      local claim, place, next_session, from, lasts, label
      repeat
        local first = redis.call('ZPOPMIN', KEYS[2])
        claim, place = first[1], first[2]
        if not claim then
          redis.call('DEL', KEYS[3])
          return empty()
        end
        next_session = 's:' .. string.sub(claim, 1, 16)
        local life = redis.call('HGET', KEYS[3], next_session)
        if life then
          from, lasts, label = string.match(life, '^(%d+) (%d+) (.*)$')
        end
      until life and from + lasts * 100 > tonumber(tick) -- the dead are passed by

      local token = tick
      if tonumber(found[4]) >= tonumber(tick) then
        token = string.format('%.0f', found[4] + 1)
      end
      local number = string.sub(claim, 18)
      redis.call('HDEL', KEYS[1], mine, session)
      redis.call('HSET', KEYS[1],
        'line', '1 1 ' .. longest .. ' ' .. from .. ' ' .. lasts .. ' mutex',
        'last', token,
        'h:' .. claim, '1 ' .. token .. ' ' .. place,
        next_session, from .. ' ' .. lasts .. ' 1 ' .. number .. ' ' .. label)
      if next_session == session then
        return { 'held', { tonumber(number), tonumber(token), 1 } }
      end
      redis.call('PUBLISH', ARGV[2] .. string.sub(claim, 1, 16), 'held ' .. number .. ' ' .. token .. ' 1')
      return { 'held' }
    end
  end
end

