-- join: puts a claim in line. If it stands there already, replies with its place and renews it.
-- KEYS held line wait    ARGV tail [wait|now [slow]]; the tail is the claim as written in `one`, from its lifetime on
-- replies TOKEN (with the requested capacity) | look_in | refused, or {held, token, size} | {waiting, look_in} |
-- {refused} | {gone} | {kind, kind} | {permits, size}; the fourth element has the caller's other grants.
--
-- This file is the fast path: a name on which nobody stands, and a mutex that is held. Nearly all joins of most
-- programs end here, so it does without everything that the other cases need. line.lua explains what it reads and
-- writes. Calls and long strings are expensive: Lua reads each byte of each string that it creates.
local one = not ARGV[3] and redis.call('HGET', KEYS[1], 'one')
if not one and not ARGV[3] then
  local found = redis.call('HMGET', KEYS[1], 'last', 'void')
  one = not found[1] and not found[2] and '' -- nothing is known about this name
end
if one then
  local sub, byte = string.sub, string.byte
  local time = redis.call('TIME')
  local tick = #time[2] == 6 and sub(time[1] .. time[2], 1, 15) or time[1] .. sub('00000' .. time[2], -6, -2)

  if #one < 27 then
    if one < tick then
      local fresh = sub(one, 17)
      local is_old = fresh <= time[1]
      if is_old then fresh = time[1] + 3600 end
      local waits = (not ARGV[2] or byte(ARGV[1], 13) == 109) and ' - ' or ' = ' -- 109 is m, a mutex
      redis.call('HSET', KEYS[1], 'one', tick .. ' ' .. fresh .. waits .. tick .. ' ' .. ARGV[1])
      if is_old then -- never the first write: after it, a server with full memory would accept the others
        redis.call('PEXPIRE', KEYS[1], '7200000')
      end
      return tick
    end
  elseif not ARGV[2] or byte(ARGV[1], 13) == 109 and ARGV[2] == 'now' then
    local waits = byte(one, 28)
    local soon = sub(one, 30, 44) + sub(one, 46, 56) * 100 - tick
    local claim = sub(ARGV[1], 15, string.find(ARGV[1], ' ', 15, true))
    local fresh = sub(one, 17, 26) - time[1] -- more than an hour if the clock was set back
    -- 61 is =, not a mutex. With a token ahead of the clock the keys must live longer, so that is not for this path.
    if waits ~= 61 and soon > 0 and fresh > 0 and fresh <= 3600 and sub(one, 1, 15) <= tick
      and not string.find(one, claim, 60, true) then
      local id = sub(claim, 1, -2)
      if ARGV[2] then
        if waits ~= 122 or not redis.call('ZSCORE', KEYS[2], id) then -- 122 is z: some wait in `line`
          return 'refused'
        end
      elseif waits ~= 122 and #one < 700 then
        if waits == 45 then one = sub(one, 1, 27) .. 'i' .. sub(one, 29) end -- 45 is -: nobody waits
        redis.call('HSET', KEYS[1], 'one', one .. '\n' .. tick .. ' ' .. ARGV[1])
        return math.ceil(soon / 100) + 1
      elseif waits ~= 122 and (redis.call('ZRANGE', KEYS[2], '0', '0')[1] or redis.call('HRANDFIELD', KEYS[3])) then
        -- the server has evicted `held` alone: the code after this file forgets the old waiters
      elseif redis.call('ZADD', KEYS[2], 'NX', tick, id) == 1 then
        local session = '\t' .. sub(claim, 1, 16)
        if waits ~= 122 or not string.find(one, session, 60, true) then
          local lasts, label, born = sub(ARGV[1], 1, 11), sub(ARGV[1], 14 + #claim), ''
          if waits == 122 then
            local before = redis.call('HGET', KEYS[3], 's:' .. sub(claim, 1, 16))
            if before and sub(before, 1, 15) + sub(before, 17, 27) * 100 <= tonumber(tick) then
              born = '+' .. string.format('%015.0f', tick - sub(before, 17, 27) * 100 + 1)
            elseif before and byte(before, 28) == 43 then -- 43 is +
              born = '+' .. (sub(before, 29, 43) < tick and sub(before, 29, 43) or tick) -- if the clock was set back
            end
          end
          redis.call('HSET', KEYS[3], 's:' .. sub(claim, 1, 16), tick .. ' ' .. lasts .. born .. label)
          for i = 1, 3 do -- together, or the waiters would outlive the line
            redis.call('PEXPIRE', KEYS[i], '7200000')
          end
          if waits ~= 122 or #one < 800 and born == '' then
            redis.call('HSET', KEYS[1], 'one', sub(one, 1, 27) .. 'z' .. sub(one, 29) .. session)
          end
        end
        local behind = redis.call('ZRANGE', KEYS[2], '-2', '-1')
        if not behind[2] then -- the server may have evicted `line` alone
          redis.call('PEXPIRE', KEYS[2], '7200000')
        elseif behind[2] ~= id then -- the clock stands still, or was set back
          local last = redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')
          redis.call('ZADD', KEYS[2], string.format('%.0f', last[2] + 1), id)
        end
        return math.ceil(soon / 100) + 1
      end
    end
  end
end

local caller -- join.lua sets it

