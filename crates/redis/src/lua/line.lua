-- The line of one name, as every script sees it.
--
-- held   hash: who holds, and what is known of the line. An idle name keeps `last` alone, for a while.
--          kind size         mutex, rwlock or semaphore, and its capacity
--          used              the weights of all who hold
--          last              the newest token
--          ends              no holder's lifetime ends before it (ms)
--          keep              how long the keys are kept once nobody renews (ms)
--          seq               the place of the last who came to wait; absent when nobody can be waiting
--          void              until when there may be void claims (ms)
--          h:CLAIM           weight token since
--          s:SESSION         until when it lives, how many claims it has here, the sum of their numbers, its label
-- line   sorted set: who waits, by place. A place is the time of the join in µs, or one more than the last place.
-- wait   hash of those who wait: s:SESSION as above, and w:CLAIM its weight, when that is not 1.
-- void   sorted set: claims that must not come alive any more, by when that can be forgotten (ms).
--
-- A claim is SESSION-NUMBER, the session in 16 hex digits. Time is the server's.
-- No function here walks the line.
local held, line, wait, void = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- Who calls, and what the channels of clients begin with.
local caller, channels = ARGV[1], ARGV[2]

local micros -- the server's time, once it was asked for

local function now()
  if not micros then
    local time = redis.call('TIME')
    micros = time[1] * 1000000 + time[2]
  end
  return math.floor(micros / 1000)
end

local function text(number)
  return string.format('%.0f', number)
end

local function session_of(claim)
  return string.sub(claim, 1, 16)
end

local function number_of(claim)
  return tonumber(string.sub(claim, 18))
end

-- The line's own fields, and what is to be written in the end.
local at = {}
local puts, drops = {}, {}

local function put(field, value)
  puts[#puts + 1] = field
  puts[#puts + 1] = value
end

local function drop(field)
  drops[#drops + 1] = field
end

-- Reads the fields of the line; answers what `field` holds, if one more is asked for.
local function read(field)
  local found = redis.call('HMGET', held, 'kind', 'size', 'used', 'last', 'ends', 'keep', 'seq', 'void', field)
  at.kind, at.size, at.used = found[1], tonumber(found[2] or 0), tonumber(found[3] or 0)
  at.last, at.ends, at.keep = tonumber(found[4] or 0), tonumber(found[5] or 0), tonumber(found[6] or 0)
  at.seq, at.void = tonumber(found[7] or nil), tonumber(found[8] or 0)
  return found[9]
end

-- How sessions live here, by key, as they were read or are to be written.
local lives = { [held] = {}, [wait] = {} }

local function life(key, session)
  local known = lives[key][session]
  if not known then
    local entry = redis.call('HGET', key, 's:' .. session)
    local till, count, sum, label
    if entry then
      till, count, sum, label = string.match(entry, '^(%d+) (%d+) (%d+) (.*)$')
    end
    known = { till = tonumber(till or 0), count = tonumber(count or 0), sum = tonumber(sum or 0), label = label or '' }
    lives[key][session] = known
  end
  return known
end

local function life_text(life)
  return text(life.till) .. ' ' .. text(life.count) .. ' ' .. text(life.sum) .. ' ' .. life.label
end

-- One claim more (by = 1) or less (by = -1) of a session.
local function count(key, claim, by)
  local known = life(key, session_of(claim))
  known.count = known.count + by
  known.sum = known.sum + by * number_of(claim)
  known.changed = true
  return known
end

local function in_pieces(command, key, words)
  for from = 1, #words, 1000 do
    redis.call(command, key, unpack(words, from, math.min(from + 999, #words)))
  end
end

-- What drops comes before what is put: a server whose memory is full refuses only the first write of a script,
-- and nobody may be kept from leaving.
local function save()
  for session, known in pairs(lives[wait]) do
    if known.changed and known.count == 0 then
      redis.call('HDEL', wait, 's:' .. session)
    end
  end
  if at.used == 0 then -- whoever waits first always fits into nothing: so nobody does
    puts = {}
    for session in pairs(lives[held]) do
      drop('s:' .. session)
    end
    for _, field in ipairs({ 'kind', 'size', 'used', 'ends', 'keep', 'seq' }) do
      drop(field)
    end
  else
    put('used', text(at.used))
    put('ends', text(at.ends))
    if at.seq then
      put('seq', text(at.seq))
    else
      drop('seq')
    end
    for session, known in pairs(lives[held]) do
      if known.changed and known.count == 0 then
        drop('s:' .. session)
      elseif known.changed then
        put('s:' .. session, life_text(known))
      end
    end
  end
  in_pieces('HDEL', held, drops)
  if at.last_is_new then
    put('last', text(at.last))
  end
  in_pieces('HSET', held, puts)
  for session, known in pairs(lives[wait]) do
    if known.changed and known.count > 0 then
      redis.call('HSET', wait, 's:' .. session, life_text(known))
    end
  end
  puts, drops, lives = {}, {}, { [held] = {}, [wait] = {} }
end

-- Grants that the caller hears of by this script's reply, of which they are the last part: number, token, size, …
local own = {}

-- Writes a claim down as held, under a token of its own.
local function grant(claim, weight, since, till)
  now()
  at.last = math.max(at.last + 32, math.floor(micros / 10) * 32)
  at.last_is_new = true
  at.used = at.used + weight
  at.ends = math.min(at.ends, till)
  put('h:' .. claim, text(weight) .. ' ' .. text(at.last) .. ' ' .. text(since))
  local known = count(held, claim, 1)
  known.till = math.max(known.till, till)
  return known
end

local function tell(claim, word)
  redis.call('PUBLISH', channels .. session_of(claim), word)
end

-- Takes a claim that waits out of the line.
local function stop_waiting(claim)
  redis.call('ZREM', line, claim)
  if at.kind ~= 'mutex' then -- all of a mutex weigh 1
    redis.call('HDEL', wait, 'w:' .. claim)
  end
  count(wait, claim, -1)
end

-- Grants whoever comes next and fits, and tells them. The dead are taken out as they are met.
local function settle()
  while at.seq and at.used < at.size do
    local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    local claim = first[1]
    if not claim then
      at.seq = nil
      return
    end
    local weight = tonumber(redis.call('HGET', wait, 'w:' .. claim) or 1)
    local known = life(wait, session_of(claim))
    if known.till <= now() then
      stop_waiting(claim)
    elseif at.used + weight <= at.size then
      stop_waiting(claim)
      grant(claim, weight, math.floor(first[2] / 1000), known.till).label = known.label
      local number = number_of(claim)
      if session_of(claim) == caller then
        own[#own + 1] = number
        own[#own + 1] = at.last
        own[#own + 1] = at.size
      else
        tell(claim, 'held ' .. text(number) .. ' ' .. text(at.last) .. ' ' .. text(at.size))
      end
    else
      at.next_ends = known.till -- when it dies, those behind it may go on
      return
    end
  end
end

-- Takes out whoever holds and is dead. It walks the holders, and does so at most once in a lifetime.
local function sweep()
  if not at.kind or now() < at.ends then
    return
  end
  local all = redis.call('HGETALL', held)
  local dead = {}
  at.ends = math.huge
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 's:' then
      local till = tonumber(string.match(all[i + 1], '^%d+'))
      if till <= now() then
        local session = string.sub(all[i], 3)
        dead[session] = true
        drop(all[i])
        lives[held][session] = { till = 0, count = 0, sum = 0, label = '' }
      else
        at.ends = math.min(at.ends, till)
      end
    end
  end
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' and dead[session_of(string.sub(all[i], 3))] then
      at.used = at.used - tonumber(string.match(all[i + 1], '^%d+'))
      drop(all[i])
    end
  end
end

-- In how many ms a lifetime ends that those who wait depend on.
local function look_in()
  return math.max(math.min(at.ends, at.next_ends or math.huge) - now(), 0) + 1
end

-- The keys of a line that is in use outlive everyone who renews; those of an idle name keep the newest token.
local function keep(ttl, idle)
  if ttl * 2 > at.keep then
    at.keep = ttl * 2
    put('keep', text(at.keep))
  end
  redis.call('PEXPIRE', held, text(math.max(at.keep, idle)))
end
