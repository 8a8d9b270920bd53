
-- resize: changes the capacity of a semaphore that is in use, and grants the waiters that fit now.
-- ARGV caller from to
-- replies {done, the caller's grants} | {kind, kind} | {size, size} | {waits, weight of a waiter that is too heavy}.
-- It is the only script that walks the waiters; it checks those that ask for more permits than `to`.
local from, to = tonumber(ARGV[2]), tonumber(ARGV[3])

-- Whether a claim waits and is alive.
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
  if string.sub(weights[i], 1, MARK) == 'WEIGHS' and tonumber(weights[i + 1]) > to then
    local claim = string.sub(weights[i], MARK + 1)
    if lives_waiting(claim) then
      return answer('waits', tonumber(weights[i + 1]))
    end
    dead[#dead + 1] = claim
  end
end
for i = 1, #dead, PIECE do -- a dead claim that came alive again would block everyone behind it
  stop_waiting({ unpack(dead, i, math.min(i + (PIECE - 1), #dead)) })
end
at.size = to
settle()
return answer('done')
