-- join: all other cases, such as a line in which others stand, or a name that has void claims.
local ttl, letter, claim, label = string.match(ARGV[1], '^(%d+) (.) (%S+) (.*)$')
local kind, is_patient, size, weight = KINDS[letter], ARGV[2] ~= 'now', 1, 1
if kind ~= 'mutex' then
  size, weight, label = string.match(label, '^(%d+) (%d+) (.*)$')
end
size, weight = tonumber(size), tonumber(weight)
caller = session_of(claim)

local mine = read(claim)
if at.void > 0 and tonumber(redis.call('ZSCORE', line, claim) or 0) >= VOID then
  return { 'gone' }
end

local function answer(word, first, second)
  save()
  return { word, first or false, second or false, own }
end

-- Begins a lifetime now, and makes the keys outlive it.
local function renew(life)
  now()
  life.from, life.lasts, life.label, life.ends, life.changed = tick, ttl, label, ticks + ttl * TICKS, true
  at.ttl, at.keeps = math.max(at.ttl, ttl), true
  return life
end

-- Where the claim stands already. A claim whose lifetime is over joins as a new one.
local is_waiting = not mine and waits(claim)
if is_waiting and ends_of(waiter(caller), is_waiting) <= now() then
  stop_waiting({ claim })
  is_waiting = false
end
if mine and holder(caller).ends <= now() then
  mine, at.ends = false, 0
elseif mine then
  at.ends = math.min(at.ends, renew(holder(caller)).ends)
elseif is_waiting then
  renew(bury(waiter(caller)))
  if kind ~= 'mutex' and not redis.call('HGET', wait, 'WEIGHS' .. claim) then -- the server has evicted `wait` alone
    redis.call('HSET', wait, 'WEIGHS' .. claim, weight)
  end
end
sweep()
settle()

if mine then
  return answer('held', tonumber(string.match(mine, '^%d+ (%d+)')), at.size)
elseif granted[claim] then -- just now, by this script
  return answer('held', granted[claim], at.size)
elseif is_waiting then
  return answer('waiting', look_in())
end

if at.used == 0 then -- all previous holders are dead and removed
  at.kind, at.size, at.ttl, at.ends, at.seq = kind, size, 0, math.huge, false
end
if at.kind ~= kind then
  return answer('kind', at.kind)
end
if weight > at.size then
  return answer('permits', at.size)
end

if not at.seq and at.used + weight <= at.size then
  grant(claim, weight, renew({}))
  return answer('held', at.last, at.size)
end
if not is_patient then
  return answer('refused')
end

now()
if not at.seq then
  forget_line()
end
local last = redis.call('ZRANGE', line, '(VOID', '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
local place = long(math.max(ticks, (last[2] or 0) + 1))
redis.call('ZADD', line, place, claim)
at.seq = true
if kind ~= 'mutex' then
  redis.call('HSET', wait, 'WEIGHS' .. claim, weight)
end
local known = renew(bury(waiter(caller)))
if place < known.born then known.born = place end -- the clock was set back
return answer('waiting', look_in())
