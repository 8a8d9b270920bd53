-- leave: takes one claim out of the line, wherever it stands, and grants whoever fits now.
-- ARGV caller channels claim how ttl idle
-- replies {held | waiting | absent, the caller's grants}; other clients are told on their channels.
-- Absent is success: a leave may be repeated, or come after the claim's lifetime ended. A void leave also keeps the
-- claim from coming alive if its join arrives later.
local claim, how, ttl, idle = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

local left = 'absent'
local mine = read('h:' .. claim)
if mine then
  left = 'held'
  at.used = at.used - tonumber(string.match(mine, '^%d+'))
  drop('h:' .. claim)
  if at.used == 0 and not at.seq then
    drop('s:' .. session_of(claim)) -- the last one needs no count: most leaves end here
  else
    count(held, claim, -1)
  end
elseif at.seq and redis.call('ZSCORE', line, claim) then
  left = 'waiting'
  stop_waiting(claim)
end

if left ~= 'absent' then
  settle()
  save()
  if session_of(claim) ~= caller then
    tell(claim, 'gone ' .. string.sub(claim, 18))
  end
end

if how == 'void' then
  local till = math.max(at.void, now() + ttl)
  redis.call('ZREMRANGEBYSCORE', void, '-inf', text(now()))
  redis.call('ZADD', void, text(now() + ttl), claim)
  redis.call('PEXPIRE', void, text(till - now()))
  redis.call('HSET', held, 'void', text(till))
  redis.call('PEXPIRE', held, text(math.max(at.keep, idle)))
end
return { left, own }
