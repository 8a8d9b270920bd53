
-- resize: changes the capacity of a semaphore that is in use, and grants whoever fits now.
-- ARGV caller from to
-- replies {done, the caller's grants} | {kind, kind} | {size, size} | {waits, weight of the heaviest who waits}.
-- It is the one script that walks who waits, as far as they ask for more than one permit.
local from, to = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Whether a claim waits, and its lifetime is not over.
local function lives_waiting(claim)
  local place = waits(claim)
  return place and ends_of(waiter(session_of(claim)), place) > now()
end

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
local weights, dead = redis.call('HGETALL', wait), {}
for i = 1, #weights, 2 do
  if string.sub(weights[i], 1, 2) == 'w:' and tonumber(weights[i + 1]) > to then
    local claim = string.sub(weights[i], 3)
    if lives_waiting(claim) then
      return answer('waits', tonumber(weights[i + 1]))
    end
    dead[#dead + 1] = claim
  end
end
for i = 1, #dead, 1000 do -- it would hold up everyone behind it if it came alive
  stop_waiting({ unpack(dead, i, math.min(i + 999, #dead)) })
end
at.size = to
settle()
return answer('done')
