
-- leave, where others stand too, or of a claim of which nothing is known.
local claim, how, ttl, idle = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])

local left = 'absent'
local mine = read('h:' .. claim)
if mine then
  left = 'held'
  at.used = at.used - tonumber(string.match(mine, '^%d+'))
  drop('h:' .. claim)
  count(claim, -1)
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
  local this_ms = math.floor(now())
  local forget_all = math.max(at.void, this_ms + ttl)
  redis.call('ZREMRANGEBYSCORE', void, '-inf', this_ms)
  redis.call('ZADD', void, this_ms + ttl, claim)
  redis.call('PEXPIRE', void, forget_all - this_ms)
  redis.call('HSET', held, 'void', forget_all)
  redis.call('PEXPIRE', held, math.max(at.ttl * 2, idle))
end
return { left, own }
