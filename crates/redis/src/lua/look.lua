
-- look: where these claims of the caller stand now; on the way it takes out the dead, and grants whoever comes next.
-- ARGV caller channels ttl strays NUMBER…
-- replies {1 if anybody stands here, look_in, size, {number, token, … of the held}, {numbers of the gone},
-- {numbers of the caller's holders that were not asked about, if strays is 1}, the caller's grants}.
local ttl, strays = tonumber(ARGV[3]), ARGV[4] == '1'

read()
if at.seq then
  local known = waiter(caller)
  if till(known) > 0 and till(known) <= now() then -- late, but here it is, before anyone has passed it by
    begin(known, ttl, known.label)
  end
end
sweep()
settle()
local is_in_use = at.kind and at.used > 0
local size, soon = at.size, is_in_use and look_in() or ttl
if at.kind then
  redis.call('HDEL', held, '-') -- a server whose memory is full refuses only the first write of a script, never this
  save()
else
  redis.call('DEL', line, wait) -- the server has evicted `held` alone: nobody would ever be granted here
end

local are_held, are_gone, are_strays, asked = {}, {}, {}, {}

local function look(from, to)
  local fields = {}
  for i = from, to do
    fields[#fields + 1] = 'h:' .. caller .. '-' .. ARGV[i]
    asked[ARGV[i]] = true
  end
  local found = redis.call('HMGET', held, unpack(fields))
  for i = from, to do
    local entry = found[i - from + 1]
    if entry then
      are_held[#are_held + 1] = tonumber(ARGV[i])
      are_held[#are_held + 1] = tonumber(string.match(entry, '^%d+ (%d+)'))
    elseif not (at.seq and redis.call('ZSCORE', line, caller .. '-' .. ARGV[i])) then
      are_gone[#are_gone + 1] = tonumber(ARGV[i])
    end
  end
end

for from = 5, #ARGV, 1000 do
  look(from, math.min(from + 999, #ARGV))
end
if strays then
  local all = redis.call('HKEYS', held)
  for _, field in ipairs(all) do
    if string.sub(field, 1, 18) == 'h:' .. caller and not asked[string.sub(field, 20)] then
      are_strays[#are_strays + 1] = tonumber(string.sub(field, 20))
    end
  end
end
return { is_in_use and 1 or 0, soon, size, are_held, are_gone, are_strays, own }
