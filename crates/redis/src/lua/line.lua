-- The line of one name, as every script sees it.
--
-- held   hash: who holds, and what is known of the line. An idle name keeps `last` alone, for a while.
--          line              capacity, the weights of all who hold, the longest ttl of anyone here, the moment before
--                            which no holder's lifetime ends, and the kind
--          last              the newest token
--          seq               the place of the last who came to wait; absent when nobody can be waiting
--          void              until when there may be void claims (ms)
--          h:CLAIM           weight, token, and the place it waited at, if it did
--          s:SESSION         until when it lives, how many claims it has here, the sum of their numbers, its label
-- line   sorted set: who waits, by place. A place is the time of the join, or one more than the last place.
-- wait   hash of those who wait: s:SESSION until when it lives, and its label, and w:CLAIM its weight, when that is
--        not 1. What it still knows of sessions that wait no more goes with the line, or is met by chance.
-- void   sorted set: claims that must not come alive any more, by when that can be forgotten (ms).
--
-- A claim is SESSION-NUMBER, the session in 16 hex digits. Time is the server's. Tokens and places count it in ticks of
-- 10 µs, since 1970: 15 digits, which Lua's own way of writing numbers would round. A moment is a tick and the ms after
-- it, two numbers, so that a lifetime can be written down without arithmetic. Nothing here walks the line.
local held, line, wait, void = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- Who calls, and what the channels of clients begin with.
local caller, channels = ARGV[1], ARGV[2]

local tick, ticks -- the server's time, as a text and as a number, once it was asked for

-- The server's time in ms.
local function now()
  if not ticks then
    local time = redis.call('TIME')
    tick = time[1] .. string.format('%05d', time[2] / 10)
    ticks = tonumber(tick)
  end
  return ticks / 100
end

local function long(number)
  return string.format('%.0f', number)
end

local function session_of(claim)
  return string.sub(claim, 1, 16)
end

local function number_of(claim)
  return tonumber(string.sub(claim, 18))
end

-- What is known of the line, and what is to be written in the end.
local at = {}
local puts, drops = {}, {}

local function put(field, value)
  puts[#puts + 1] = field
  puts[#puts + 1] = value
end

local function drop(field)
  drops[#drops + 1] = field
end

-- Reads what is known of the line; answers what `field` holds, if one more is asked for.
local function read(field)
  local found = redis.call('HMGET', held, 'line', 'last', 'seq', 'void', field or 'line')
  local size, used, ttl, from, lasts
  if found[1] then
    size, used, ttl, from, lasts, at.kind = string.match(found[1], '^(%d+) (%d+) (%d+) (%d+) (%d+) (.+)$')
  end
  at.size, at.used, at.ttl = tonumber(size or 0), tonumber(used or 0), tonumber(ttl or 0)
  at.ends = (from or 0) / 100 + (lasts or 0)
  at.last, at.seq, at.void = tonumber(found[2] or 0), found[3] and tonumber(found[3]), tonumber(found[4] or 0)
  at.old_seq = at.seq
  return found[5]
end

-- How sessions live that hold, and that wait, as they were read or are to be written.
local holders, waiters = {}, {}

local function holder(session)
  local known = holders[session]
  if not known then
    local entry = redis.call('HGET', held, 's:' .. session)
    local from, lasts, count, sum, label
    if entry then
      from, lasts, count, sum, label = string.match(entry, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    end
    known = { from = from or 0, lasts = lasts or 0, count = tonumber(count or 0), sum = tonumber(sum or 0),
      label = label or '' }
    holders[session] = known
  end
  return known
end

local function waiter(session)
  local known = waiters[session]
  if not known then
    local entry = redis.call('HGET', wait, 's:' .. session)
    local from, lasts, label
    if entry then
      from, lasts, label = string.match(entry, '^(%d+) (%d+) (.*)$')
    end
    known = { from = from or 0, lasts = lasts or 0, label = label or '' }
    waiters[session] = known
  end
  return known
end

local function till(life)
  return life.from / 100 + life.lasts
end

-- A lifetime of `ttl` begins now.
local function begin(life, ttl, label)
  now()
  life.from, life.lasts, life.label, life.changed = tick, ttl, label, true
end

-- One held claim more (by = 1) or less (by = -1) of a session.
local function count(claim, by)
  local known = holder(session_of(claim))
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
  if at.used == 0 then -- whoever waits first always fits into nothing: so nobody does
    puts = {}
    drop('line')
    drop('seq')
    for session in pairs(holders) do
      drop('s:' .. session)
    end
  else
    put('line', at.size .. ' ' .. at.used .. ' ' .. at.ttl .. ' ' .. long(at.ends * 100) .. ' 0 ' .. at.kind)
    if at.seq ~= at.old_seq then
      if at.seq then put('seq', long(at.seq)) else drop('seq') end
    end
    for session, known in pairs(holders) do
      if known.changed and known.count == 0 then
        drop('s:' .. session)
      elseif known.changed then
        put('s:' .. session,
          known.from .. ' ' .. known.lasts .. ' ' .. known.count .. ' ' .. long(known.sum) .. ' ' .. known.label)
      end
    end
  end
  if at.last_is_new then
    put('last', long(at.last))
  end
  in_pieces('HDEL', held, drops)
  in_pieces('HSET', held, puts)
  for session, known in pairs(waiters) do
    if known.changed and at.seq then
      redis.call('HSET', wait, 's:' .. session, known.from .. ' ' .. known.lasts .. ' ' .. known.label)
      redis.call('PEXPIRE', wait, at.ttl * 2) -- the key may be new
    end
  end
  puts, drops, holders, waiters = {}, {}, {}, {}
end

-- Grants that the caller hears of by this script's reply, of which they are the last part: number, token, size, …
local own = {}
-- The tokens of all that this script grants, by claim.
local granted = {}

-- Writes a claim down as held, under a token of its own, by a session that lives like that.
local function grant(claim, weight, alive, place)
  now()
  at.last = math.max(at.last + 1, ticks)
  at.last_is_new = true
  granted[claim] = at.last
  at.used = at.used + weight
  at.ends = math.min(at.ends, till(alive))
  put('h:' .. claim, weight .. ' ' .. long(at.last) .. (place and ' ' .. place or ''))
  local known = count(claim, 1)
  if till(known) < till(alive) then
    known.from, known.lasts = alive.from, alive.lasts
  end
  known.label = alive.label
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
end

-- Grants whoever comes next and fits, and tells them. The dead are taken out as they are met.
local function settle()
  while at.seq and at.used < at.size do
    local first = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')
    local claim = first[1]
    if not claim then
      at.seq = nil
      redis.call('DEL', wait)
      return
    end
    local weight = at.kind == 'mutex' and 1 or tonumber(redis.call('HGET', wait, 'w:' .. claim) or 1)
    local known = waiter(session_of(claim))
    if till(known) <= now() then
      stop_waiting(claim)
    elseif at.used + weight <= at.size then
      stop_waiting(claim)
      grant(claim, weight, known, first[2])
      local number = number_of(claim)
      if session_of(claim) == caller then
        own[#own + 1] = number
        own[#own + 1] = at.last
        own[#own + 1] = at.size
      else
        tell(claim, 'held ' .. long(number) .. ' ' .. long(at.last) .. ' ' .. at.size)
      end
    else
      at.next_ends = till(known) -- when it dies, those behind it may go on
      return
    end
  end
end

-- Forgets those of some waiters' sessions that are dead: by and by of all that have not come back.
local function forget_some()
  local some = redis.call('HRANDFIELD', wait, 16, 'WITHVALUES')
  for i = 1, #some, 2 do
    local from, lasts = string.match(some[i + 1], '^(%d+) (%d+) ')
    if from and from / 100 + lasts <= now() then
      redis.call('HDEL', wait, some[i])
    end
  end
end

-- Takes out whoever holds and is dead. It walks the holders, and does so at most once in a lifetime; and when the clock
-- was set back, for nobody lives longer than the longest ttl.
local function sweep()
  if not at.kind or (now() < at.ends and at.ends <= now() + at.ttl) then
    return
  end
  local all = redis.call('HGETALL', held)
  local dead = {}
  at.ends = math.huge
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 's:' then
      local from, lasts = string.match(all[i + 1], '^(%d+) (%d+)')
      local ends = from / 100 + lasts
      if ends <= now() then
        local session = string.sub(all[i], 3)
        dead[session] = true
        drop(all[i])
        holders[session] = { from = 0, lasts = 0, count = 0, sum = 0, label = '' }
      else
        at.ends = math.min(at.ends, ends)
      end
    end
  end
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, 2) == 'h:' and dead[session_of(string.sub(all[i], 3))] then
      at.used = at.used - tonumber(string.match(all[i + 1], '^%d+'))
      drop(all[i])
    end
  end
  if at.seq then
    forget_some()
  end
end

-- In how many ms a lifetime ends that those who wait depend on.
local function look_in()
  return math.max(math.ceil(math.min(at.ends, at.next_ends or math.huge) - now()), 0) + 1
end

-- The keys of a line that is in use outlive everyone who renews; those of an idle name keep the newest token.
local function keep(ttl, idle)
  at.ttl = math.max(at.ttl, ttl)
  redis.call('PEXPIRE', held, math.max(at.ttl * 2, idle))
end
