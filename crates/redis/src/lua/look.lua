-- look: tells where these claims of the caller stand now. On the way it removes the dead and grants the next waiters.
-- ARGV caller ttl strays NUMBER…
-- replies {1 if any claim stands here, look_in, size, {number, token, … of the held}, {numbers of the gone},
-- {numbers of some or all strays: the caller's holders that the look did not ask about}, the caller's grants}.
-- `strays` is one of these:
--   0              do not look for strays
--   1              look for strays
--   "COUNT SUM"    look for strays. The caller asked about COUNT holders in other looks, with that sum of numbers; the
--                  strays may include those holders.
local ttl, strays = tonumber(ARGV[2]), ARGV[3] ~= '0'

at.must = true -- a look must not be refused
read()
-- The caller's own waiters whose lifetime is over leave now: their client has to stand in line anew.
local life = at.seq and waiter(caller)
if life and (life.born ~= '' or life.from == '' or life.from + life.lasts * TICKS <= now()) then
  local dead = {}
  for i = 4, #ARGV do
    local claim = caller .. '-' .. ARGV[i]
    local place = waits(claim)
    if place and ends_of(life, place) <= now() then
      dead[#dead + 1] = claim
    end
  end
  if dead[1] then
    stop_waiting(dead)
  end
end
sweep()
settle()
local is_in_use = at.kind and at.used > 0
local size, soon = at.size, is_in_use and look_in() or ttl
if at.kind then
  at.has_less = true -- perhaps the server has evicted `line` alone
  save()
elseif at.void == 0 then
  redis.call('DEL', line, wait) -- if the server has evicted `held` alone, these waiters would never be granted
end

local are_held, are_gone, are_strays, asked = {}, {}, {}, {}
local held_count, held_sum = 0, 0

-- The entries of those of these claims that hold.
local function entries(claims)
  if not at.in_one then
    local fields = {}
    for i, claim in ipairs(claims) do
      fields[i] = 'HOLDS' .. claim
    end
    return redis.call('HMGET', held, unpack(fields))
  end
  local found = {}
  for i, claim in ipairs(claims) do
    found[i] = at.only and at.only.claim == claim and at.only.entry or false
  end
  return found
end

local function look(from, to)
  local claims = {}
  for i = from, to do
    claims[#claims + 1] = caller .. '-' .. ARGV[i]
    asked[ARGV[i]] = true
  end
  for i, entry in ipairs(entries(claims)) do
    local number = tonumber(ARGV[from + i - 1])
    if entry then
      held_count, held_sum = held_count + 1, held_sum + number
      are_held[#are_held + 1] = number
      are_held[#are_held + 1] = tonumber(string.match(entry, '^%d+ (%d+)'))
    elseif not waits(claims[i]) then
      are_gone[#are_gone + 1] = number
    end
  end
end

for from = 4, #ARGV, PIECE do
  look(from, math.min(from + (PIECE - 1), #ARGV))
end
-- The number of strays and the sum of their numbers are known without a walk; a single stray is found by its number. Of
-- several strays, this finds those with numbers near the mean, because the leaves that a server has forgotten came at
-- about the same time; and those among a number of random fields. The next look finds more. No look costs more because
-- other clients hold.
local function find_strays()
  local known = holder(caller)
  local elsewhere, all = string.match(ARGV[3], '^(%d+) (%d+)$')
  local count, sum = known.count - (elsewhere or 0) - held_count, known.sum - (all or 0) - held_sum
  if count <= 0 then
    return
  end
  local around, numbers, claims = count > 1 and AROUND or 0, {}, {}
  local mean = math.floor(sum / count)
  for number = math.max(mean - around, 0), math.max(mean + around - 1, mean) do
    local text = string.format('%.0f', number)
    if not asked[text] then
      numbers[#numbers + 1] = text
      claims[#claims + 1] = caller .. '-' .. text
    end
  end
  local function is_stray(number)
    asked[number] = true
    are_strays[#are_strays + 1] = tonumber(number)
  end
  for i, entry in ipairs(claims[1] and entries(claims) or {}) do
    if entry then
      is_stray(numbers[i])
    end
  end
  if (elsewhere or #are_strays < count) and not at.in_one then
    for _, field in ipairs(redis.call('HRANDFIELD', held, 'PIECE')) do -- all fields, if there are no more
      if string.sub(field, 1, MARK + CLAIM_SESSION_END) == 'HOLDS' .. caller
        and not asked[string.sub(field, MARK + CLAIM_NUMBER)] then
        is_stray(string.sub(field, MARK + CLAIM_NUMBER))
      end
    end
  end
end

if strays then
  find_strays()
end
return { is_in_use and 1 or 0, soon, size, are_held, are_gone, are_strays, own }
