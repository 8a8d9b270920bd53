
-- resize: changes the capacity of a semaphore that is in use, and grants whoever fits now.
-- ARGV caller from to
-- replies {done, the caller's grants} | {kind, kind} | {size, size} | {waits, weight of the heaviest who waits}.
-- It is the one script that walks who waits, as far as they ask for more than one permit.
local from, to = tonumber(ARGV[2]), tonumber(ARGV[3])

at.must = true
read()
sweep()
settle()

local function answer(word, what)
  if at.kind then
    save()
  end
  return { word, what or own, own }
end

if at.used == 0 then
  return answer('done')
end
if at.kind ~= 'semaphore' then
  return answer('kind', at.kind)
end
if at.size ~= from then
  return answer('size', at.size)
end
local weights = redis.call('HGETALL', wait)
for i = 1, #weights, 2 do
  if string.sub(weights[i], 1, 2) == 'w:' and tonumber(weights[i + 1]) > to then
    return answer('waits', tonumber(weights[i + 1]))
  end
end
at.size = to
settle()
return answer('done')
