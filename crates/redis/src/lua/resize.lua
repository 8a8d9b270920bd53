-- resize: changes the capacity of a semaphore that is in use, and grants whoever fits now.
-- ARGV caller channels from to
-- replies {done, the caller's grants} | {kind, kind} | {size, size} | {waits, weight of the heaviest who waits}.
-- It is the one script that walks who waits, as far as they ask for more than one permit.
local from, to = tonumber(ARGV[3]), tonumber(ARGV[4])

read()
sweep()
settle()
if not at.kind or at.used == 0 then
  save()
  return { 'done', own }
end

local function refuse(word, what)
  save()
  return { word, what }
end

if at.kind ~= 'semaphore' then
  return refuse('kind', at.kind)
end
if at.size ~= from then
  return refuse('size', at.size)
end
local weights = redis.call('HGETALL', wait)
for i = 1, #weights, 2 do
  if string.sub(weights[i], 1, 2) == 'w:' and tonumber(weights[i + 1]) > to then
    return refuse('waits', tonumber(weights[i + 1]))
  end
end
at.size = to
put('size', ARGV[4])
settle()
save()
return { 'done', own }
