-- join: stands in line, or says where the claim stands already, which also renews it.
-- KEYS held line wait void    ARGV caller channels claim kind weight size ttl idle label patient
-- replies {held, token, size} | {waiting, look_in} | {refused} | {gone} | {kind, kind} | {permits, size}, and at the
-- fourth place the caller's other grants.
--
-- First the usual: a name on which nobody stands, and a mutex that somebody has. Nearly all joins of most programs end
-- here, so it does without everything that the others need; what it writes is explained there.
do
  local found = redis.call('HMGET', KEYS[1], 'line', 'last', 'void', 'seq', 'h:' .. ARGV[3])
  if not found[3] and not found[5] then
    local time = redis.call('TIME')
    local tick, ttl, weight = time[1] .. string.format('%05d', time[2] / 10), ARGV[7], ARGV[5]

    if not found[1] then
      if tonumber(weight) > tonumber(ARGV[6]) then
        return { 'permits', tonumber(ARGV[6]) }
      end
      local token = tick
      if found[2] and tonumber(found[2]) >= tonumber(tick) then
        token = string.format('%.0f', found[2] + 1)
      end
      redis.call('HSET', KEYS[1],
        'line', ARGV[6] .. ' ' .. weight .. ' ' .. ttl .. ' ' .. tick .. ' ' .. ttl .. ' ' .. ARGV[4],
        'last', token,
        'h:' .. ARGV[3], weight .. ' ' .. token,
        's:' .. ARGV[1], tick .. ' ' .. ttl .. ' 1 ' .. string.sub(ARGV[3], 18) .. ' ' .. ARGV[9])
      redis.call('PEXPIRE', KEYS[1], ARGV[8]) -- never the first write: it would let a full server take the others
      return { 'held', tonumber(token), tonumber(ARGV[6]) }
    end

    local longest, from, lasts = string.match(found[1], '^1 1 (%d+) (%d+) (%d+) mutex$')
    local soon = longest and from - tick + lasts * 100
    local is_mutex = longest and ARGV[4] == 'mutex' and soon > 0 and soon <= longest * 100
    if is_mutex and ARGV[10] ~= '1' and not (found[4] and redis.call('ZSCORE', KEYS[2], ARGV[3])) then
      return { 'refused' }
    elseif is_mutex and ARGV[10] == '1' and tonumber(ttl) <= tonumber(longest) then
      local place = tick
      if found[4] and tonumber(found[4]) >= tonumber(tick) then
        place = string.format('%.0f', found[4] + 1)
      end
      if redis.call('ZADD', KEYS[2], 'NX', place, ARGV[3]) == 1 then -- else it waits already
        redis.call('HSET', KEYS[1], 'seq', place)
      end
      redis.call('HSET', KEYS[3], 's:' .. ARGV[1], tick .. ' ' .. ttl .. ' ' .. ARGV[9])
      redis.call('PEXPIRE', KEYS[2], longest * 2)
      redis.call('PEXPIRE', KEYS[3], longest * 2)
      redis.call('PEXPIRE', KEYS[1], math.max(longest * 2, tonumber(ARGV[8])))
      return { 'waiting', math.ceil(soon / 100) + 1 }
    end
  end
end

