-- join, of a line in which somebody stands, or of a name that has void claims.
local ttl, letter, claim, label = string.match(ARGV[1], '^(%d+) (.) (%S+) (.*)$')
local kind, is_patient, size, weight = KINDS[letter], ARGV[2] ~= 'now', 1, 1
if kind ~= 'mutex' then
  size, weight, label = string.match(label, '^(%d+) (%d+) (.*)$')
end
ttl, size, weight = tonumber(ttl), tonumber(size), tonumber(weight)
caller = session_of(claim)

local mine = read(claim)
if at.void > 0 and tonumber(redis.call('ZSCORE', line, claim) or 0) >= VOID then
  return { 'gone' }
end

local function answer(word, first, second)
  save()
  return { word, first or false, second or false, own }
end

-- The keys outlive this claim.
local function keep()
  at.ttl, at.keeps = math.max(at.ttl, ttl), true
end

local function renew(life)
  begin(life, ttl, label)
  keep()
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
if waits(claim) then
  renew(waiter(caller))
  return answer('waiting', look_in())
end

if at.used == 0 then -- whoever stood here is dead, and gone
  at.kind, at.size, at.ttl, at.ends, at.seq = kind, size, 0, math.huge, false
end
if at.kind ~= kind then
  return answer('kind', at.kind)
end
if weight > at.size then
  return answer('permits', at.size)
end

if not at.seq and at.used + weight <= at.size then
  now()
  grant(claim, weight, { from = tick, lasts = ttl, label = label })
  keep()
  return answer('held', at.last, at.size)
end
if not is_patient then
  return answer('refused')
end

now()
local last = redis.call('ZRANGE', line, '(1000000000000000', '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
redis.call('ZADD', line, string.format('%.0f', math.max(ticks, (last[2] or 0) + 1)), claim)
at.seq = true
if kind ~= 'mutex' then
  redis.call('HSET', wait, 'w:' .. claim, weight)
end
renew(waiter(caller))
return answer('waiting', look_in())
