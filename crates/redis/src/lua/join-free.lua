-- join: stands in line, or says where the claim stands already, which also renews it.
-- KEYS held line wait void    ARGV caller channels claim kind weight size ttl idle label patient
-- replies {held, token, size} | {waiting, look_in} | {refused} | {gone} | {kind, kind} | {permits, size}, and at the
-- fourth place the caller's other grants.
--
-- First the case of a name on which nobody stands: nearly all joins of most programs end here, so it does without
-- everything that the others need.
do
  local found = redis.call('HMGET', KEYS[1], 'line', 'last', 'void')
  if not found[1] and not found[3] then
    if tonumber(ARGV[5]) > tonumber(ARGV[6]) then
      return { 'permits', tonumber(ARGV[6]) }
    end
    local time = redis.call('TIME')
    local tick = time[1] .. string.format('%05d', time[2] / 10)
    local token, age = tick, found[2] and tick - found[2]
    if age and age <= 0 then
      token = string.format('%.0f', found[2] + 1)
    end
    local ttl, weight = ARGV[7], ARGV[5]
    local moment = tick .. ' ' .. ttl -- until when it lives
    redis.call('HSET', KEYS[1],
      'line', ARGV[6] .. ' ' .. weight .. ' ' .. ttl .. ' ' .. moment .. ' ' .. ARGV[4],
      'last', token,
      'h:' .. ARGV[3], weight .. ' ' .. token,
      's:' .. ARGV[1], moment .. ' 1 ' .. string.sub(ARGV[3], 18) .. ' ' .. ARGV[9])
    -- Whoever was granted last has seen to it as well, at that time or by renewals: half of it is surely left.
    if not age or age < 0 or age > ARGV[8] * 50 or ttl * 4 >= tonumber(ARGV[8]) then
      redis.call('PEXPIRE', KEYS[1], ARGV[8])
    end
    return { 'held', tonumber(token), tonumber(ARGV[6]) }
  end
end

