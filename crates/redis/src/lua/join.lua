
-- join, of a line in which somebody stands, or of a name that has void claims.
local claim, kind, weight, size = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, idle, label, patient = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], ARGV[10] == '1'

local mine = read('h:' .. claim)

if at.void > now() and redis.call('ZSCORE', void, claim) then
  return { 'gone' }
elseif at.void > 0 and at.void <= now() then
  drop('void')
end

local function answer(word, first, second)
  save()
  return { word, first or false, second or false, own }
end

local function renew(life)
  begin(life, ttl, label)
  keep(ttl, idle)
end

sweep()
settle()

if granted[claim] then -- just now, by this very script
  renew(holder(caller))
  return answer('held', granted[claim], at.size)
end
if mine and till(holder(caller)) > now() then
  renew(holder(caller))
  return answer('held', tonumber(string.match(mine, '^%d+ (%d+)')), at.size)
end
if at.seq and redis.call('ZSCORE', line, claim) then
  renew(waiter(caller))
  return answer('waiting', look_in())
end

if at.used == 0 then -- whoever stood here is dead, and gone
  at.kind, at.size, at.ttl, at.ends, at.seq = kind, size, 0, math.huge, nil
end
if at.kind ~= kind then
  return answer('kind', at.kind)
end
if weight > at.size then
  return answer('permits', at.size)
end

if not at.seq and at.used + weight <= at.size then
  grant(claim, weight, { from = tick, lasts = ttl, label = label })
  keep(ttl, idle)
  return answer('held', at.last, at.size)
end
if not patient then
  return answer('refused')
end

at.seq = math.max(ticks, (at.seq or 0) + 1)
redis.call('ZADD', line, long(at.seq), claim)
if weight ~= 1 then
  redis.call('HSET', wait, 'w:' .. claim, ARGV[5])
end
renew(waiter(caller))
local soon = look_in()
save()
redis.call('PEXPIRE', line, at.ttl * 2)
redis.call('PEXPIRE', wait, at.ttl * 2)
return { 'waiting', soon, false, own }
