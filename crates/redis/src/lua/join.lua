-- join: stands in line, or says where the claim stands already, which also renews it.
-- ARGV caller channels claim kind weight size ttl idle label patient
-- replies {held, token, size} | {waiting, look_in} | {refused} | {gone} | {kind, kind} | {permits, size}, and at the
-- fourth place the caller's other grants.
local claim, kind, weight, size = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local ttl, idle, label, patient = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], ARGV[10] == '1'

local mine = read('h:' .. claim)
local till = now() + ttl

if at.void > now() and redis.call('ZSCORE', void, claim) then
  return { 'gone' }
end

if not at.kind then -- nobody stands here: most joins end in these lines
  if weight > size then
    return { 'permits', size }
  end
  local token = math.max(at.last + 32, math.floor(micros / 10) * 32)
  redis.call('HSET', held, 'kind', kind, 'size', ARGV[6], 'used', ARGV[5], 'last', text(token), 'ends', text(till),
    'keep', text(ttl * 2), 'h:' .. claim, ARGV[5] .. ' ' .. text(token) .. ' ' .. text(now()),
    's:' .. caller, text(till) .. ' 1 ' .. string.sub(claim, 18) .. ' ' .. label)
  redis.call('PEXPIRE', held, text(math.max(ttl * 2, idle)))
  return { 'held', token, size }
end

local function answer(word, first, second)
  save()
  return { word, first or false, second or false, own }
end

local function renew(key)
  local known = life(key, caller)
  known.till, known.label, known.changed = till, label, true
  keep(ttl, idle)
end

sweep()
settle()

if mine and life(held, caller).till > now() then
  renew(held)
  return answer('held', tonumber(string.match(mine, '^%d+ (%d+)')), at.size)
end
if at.seq and redis.call('ZSCORE', line, claim) then
  renew(wait)
  return answer('waiting', look_in())
end

if at.used == 0 then -- whoever stood here is dead, and gone
  at.kind, at.size, at.keep, at.ends, at.seq = kind, size, 0, math.huge, nil
  put('kind', kind)
  put('size', ARGV[6])
end
if at.kind ~= kind then
  return answer('kind', at.kind)
end
if weight > at.size then
  return answer('permits', at.size)
end

if not at.seq and at.used + weight <= at.size then
  grant(claim, weight, now(), till).label = label
  keep(ttl, idle)
  return answer('held', at.last, at.size)
end
if not patient then
  return answer('refused')
end

at.seq = math.max(micros, (at.seq or 0) + 1)
redis.call('ZADD', line, text(at.seq), claim)
if weight ~= 1 then
  redis.call('HSET', wait, 'w:' .. claim, ARGV[5])
end
count(wait, claim, 1)
renew(wait)
local soon = look_in()
save()
redis.call('PEXPIRE', line, text(at.keep))
redis.call('PEXPIRE', wait, text(at.keep))
return { 'waiting', soon, false, own }
