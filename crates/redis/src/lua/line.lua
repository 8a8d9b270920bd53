-- The line of one name, shared by the scripts. The text before this file declares `caller`.
-- record.rs describes what it reads and writes, and has the names in capital letters. In this code a stored lifetime is
-- one number: the tick at which it ends. Nothing here walks the line.
--
-- A script decides its reply about the caller's own claim before it removes or grants any claim: after that the same
-- session may live again.
local held, line, wait = KEYS[1], KEYS[2], KEYS[3]
local KINDS = { m = 'mutex', r = 'read-write lock', s = 'semaphore' }

local tick, ticks, second -- the server's time as a text, as a number, and in s; set by the first now()

-- The server's time in ticks.
local function now()
  if not ticks then
    local time = redis.call('TIME')
    second = time[1]
    tick = string.format('SECOND_FORM', second) .. string.sub('00000' .. time[2], -6, -2)
    ticks = tonumber(tick)
  end
  return ticks
end

local function long(number)
  return string.format('TICK_FORM', number)
end

local function session_of(claim)
  return string.sub(claim, 1, CLAIM_SESSION_END)
end

local function number_of(claim)
  return tonumber(string.sub(claim, CLAIM_NUMBER))
end

-- The state of the line, and what to write at the end. A server with full memory refuses only the first write of a
-- script, and only if that command could use more memory. So a script that must not be refused begins with another
-- write.
local at = {}
local puts, drops = {}, {}

-- The expiry (ms) of keys that have to live for `life` and remember the newest token. If the clock was set back, that
-- token is ahead of it and is remembered until the clock has reached it again.
local function with_token(life)
  return life + math.ceil(math.max(at.last - now(), 0) / TICKS)
end

local function put(field, value)
  puts[#puts + 1] = field
  puts[#puts + 1] = value
end

local function drop(field)
  drops[#drops + 1] = field
end

-- The lifetimes of the sessions that hold, and of those that wait, as read or to be written. `from` and `lasts` are the
-- stored texts; a holder's `ends` is the tick at which they end, and all decisions go by it. The claims of a waiting
-- session with places before `born` are dead.
local holders, waiters = {}, {}

-- Whether nothing but the newest token is known about the name.
local function is_idle(one)
  return #one <= ONE_FRESH_END
end

-- Called before the first claim waits in `line`. If the server has evicted `held` alone, the old waiters are still
-- there, though long gone, and would come alive in front of everyone.
local function forget_line()
  local first = redis.call('ZRANGE', line, '0', '0', 'WITHSCORES')
  if first[1] and at.void == 0 then -- no void claims are known either
    redis.call('DEL', line)
  elseif first[1] and tonumber(first[2]) < VOID then
    redis.call('ZREMRANGEBYSCORE', line, '-inf', '(VOID')
  end
  if redis.call('HRANDFIELD', wait) then
    redis.call('DEL', wait)
  end
end

-- Moves the waiters in `one` to `line`, so the code from here on need not know that there are two places. Returns the
-- rest of `one`.
local function spill(one, from)
  local claims, words, lives, latest = {}, {}, {}, {}
  if string.byte(one, ONE_WAITS) ~= IN_LINE_BYTE then
    forget_line()
  end
  for place, lasts, claim, label in string.gmatch(string.sub(one, from), '\n(%d+) (%d+) MUTEX (%S+) ([^\n\t]*)') do
    if place + lasts * TICKS > now() then -- or a dead claim would live by its session's lifetime in `wait`
      local session = 'LIVES' .. session_of(claim)
      claims[#claims + 1] = { claim, tonumber(place) }
      latest[session] = { place, lasts, label, latest[session] and latest[session][4] or place }
    end
  end
  for session, life in pairs(latest) do
    local place, lasts, label, first = unpack(life)
    local before, born = redis.call('HGET', wait, session), ''
    if before then -- take the later end of the two, but let no claim that came later live longer by it
      local ends = place + lasts * TICKS
      place, lasts, born = string.match(before, '^(%d+) (%d+)(%BORN?%d*)')
      place = long(math.max(place, ends - lasts * TICKS))
      born = string.sub(born, 2) <= first and born or ''
    end
    lives[#lives + 1] = session
    lives[#lives + 1] = place .. ' ' .. lasts .. born .. ' ' .. label
  end
  -- They stay before all others and in their order, even if the clock was set back.
  local before = redis.call('ZRANGE', line, '0', '0', 'WITHSCORES')[2] or math.huge
  for i = #claims, 1, -1 do
    before = math.min(claims[i][2], before - 1)
    words[#words + 1] = string.format('%.0f', before)
    words[#words + 1] = claims[i][1]
  end
  if at.must then
    redis.call('HDEL', held, '-')
  end
  if claims[1] then
    redis.call('ZADD', line, unpack(words))
    redis.call('HSET', wait, unpack(lives))
    for _, key in ipairs(KEYS) do -- together, or the waiters would outlive the line
      redis.call('PEXPIRE', key, with_token(KEPT)) -- counts from now, even if the clock was set back
    end
    local rest = string.sub(one, ONE_WAITS + 1, from - 1)
    one = string.sub(one, 1, ONE_FRESH - 1) .. second + TRUSTED .. ' IN_LINE' .. rest
  else
    local letter = string.sub(one, ONE_WAITS, ONE_WAITS)
    letter = letter == 'IN_ONE' and 'NOBODY' or letter
    one = string.sub(one, 1, ONE_WAITS - 1) .. letter .. string.sub(one, ONE_WAITS + 1, from - 1)
  end
  redis.call('HSET', held, 'one', one)
  return one
end

local function read_one(one)
  at.is_one, at.fresh = true, string.sub(one, ONE_FRESH, ONE_FRESH_END)
  at.last, at.void = tonumber(string.sub(one, 1, ONE_TOKEN_END)), 0
  at.size, at.used, at.ttl, at.ends = 0, 0, 0, 0
  if is_idle(one) then
    return
  end
  local behind = string.find(one, '[\n\t]', ONE_CLAIM)
  if behind and string.sub(one, behind, behind) == '\n' then
    one = spill(one, behind)
    at.fresh = string.sub(one, ONE_FRESH, ONE_FRESH_END)
  end
  local waits, place, lasts, letter, claim, rest = string.match(one, '^%d+ %d+ (.) (%d+) (%d+) (.) (%S+) ([^\t]*)')
  local size, weight, label = string.match(rest, '^(%d+) (%d+) (.*)$')
  if letter == 'MUTEX' then
    size, weight, label = 1, 1, rest
  end
  at.kind, at.size, at.used, at.ttl = KINDS[letter], tonumber(size), tonumber(weight), SHORT
  at.ends = place + lasts * TICKS
  at.seq = waits == 'IN_LINE'
  at.only = { claim = claim, entry = weight .. ' ' .. long(at.last) .. ' ' .. place }
  at.stood = at.only
  holders[session_of(claim)] =
    { ends = at.ends, from = place, lasts = lasts, count = 1, sum = number_of(claim), label = label, changed = true }
end

-- Reads the state of the line. Returns the entry of `claim`, if it holds.
local function read(claim)
  local found = redis.call('HMGET', held, 'one', 'line', 'last', 'seq', 'void', 'HOLDS' .. (claim or ''))
  if found[1] then
    read_one(found[1])
    return at.only and at.only.claim == claim and at.only.entry
  end
  local size, used, ttl, from, lasts
  if found[2] then
    size, used, ttl, from, lasts, at.kind = string.match(found[2], '^(%d+) (%d+) (%d+) (%d+) (%d+) (.+)$')
  end
  at.size, at.used, at.ttl = tonumber(size or 0), tonumber(used or 0), tonumber(ttl or 0)
  at.ends = (from or 0) + (lasts or 0) * TICKS
  at.last, at.seq, at.void = tonumber(found[3] or 0), found[4], tonumber(found[5] or 0)
  at.old_seq, at.is_written = at.seq, found[3] or found[5]
  if at.void > 0 and at.void * TICKS <= now() then
    at.void, at.forgets = 0, true
    drop('void')
  end
  return found[6]
end

local function holder(session, read)
  local known = holders[session]
  if not known then
    local entry = read or not at.is_one and redis.call('HGET', held, 'LIVES' .. session)
    local from, lasts, count, sum, label
    if entry then
      from, lasts, count, sum, label = string.match(entry, '^(%d+) (%d+) (%d+) (%d+) (.*)$')
    end
    known = { ends = (from or 0) + (lasts or 0) * TICKS, from = from, lasts = lasts, count = tonumber(count or 0),
      sum = tonumber(sum or 0), label = label or '' }
    holders[session] = known
  end
  return known
end

local function waiter(session)
  local known = waiters[session]
  if not known then
    local entry = redis.call('HGET', wait, 'LIVES' .. session)
    local from, lasts, born, label
    if entry then
      from, lasts, born, label = string.match(entry, '^(%d+) (%d+)%BORN?(%d*) (.*)$')
    end
    known = { from = from or '', lasts = lasts or 0, born = born or '', label = label or '' }
    waiters[session] = known
  end
  return known
end

-- When the lifetime of a claim that waits at that place ends, and from when it counts. 0 if it is dead, or if its
-- session has no entry because `wait` was evicted.
local function ends_of(known, place)
  if known.from == '' or place < known.born then
    return 0
  end
  local from = known.from < place and place or known.from
  return from + known.lasts * TICKS, from
end

-- Call this before a session's lifetime begins anew: its waiting claims whose lifetime is over stay dead.
local function bury(known)
  if known.from ~= '' and known.from + known.lasts * TICKS <= now() then
    known.born = long(now() - known.lasts * TICKS + 1)
  end
  return known
end

-- Counts one held claim of a session more (by = 1) or less (by = -1).
local function count(claim, by)
  local known = holder(session_of(claim))
  known.count = known.count + by
  known.sum = known.sum + by * number_of(claim)
  known.changed = true
  return known
end

-- Writes the entry of a holding claim.
local function hold(claim, entry)
  put('HOLDS' .. claim, entry)
  if at.only and at.only.claim == claim then
    at.only.entry = entry
  end
end

-- Removes a claim that no longer holds.
local function let_go(claim, entry)
  at.used = at.used - tonumber(string.match(entry, '^%d+'))
  drop('HOLDS' .. claim)
  if at.stood and at.stood.claim == claim then
    at.stood = nil
  end
  at.only = nil
end

local function in_pieces(command, key, words)
  for from = 1, #words, PIECE do
    redis.call(command, key, unpack(words, from, math.min(from + (PIECE - 1), #words)))
  end
end

-- The first waiting claim.
local function first()
  local found = redis.call('ZRANGE', line, '0', '0', 'WITHSCORES')
  return found[1] and tonumber(found[2]) < VOID and found[1]
end

-- The place of a claim, if it waits.
local function waits(claim)
  local place = at.seq and redis.call('ZSCORE', line, claim)
  return place and tonumber(place) < VOID and place
end

-- The claims that this script grants, in order, and their tokens by claim.
local granted = {}

-- The part of `one` about the holder and the waiters; '' if nobody holds, nil if the state does not fit into `one`.
local function rest_of_one()
  if at.void > 0 or at.ttl > SHORT or at.seq and at.kind ~= 'mutex' then
    return nil
  elseif at.used == 0 then
    return ''
  end
  local weight, token, place = string.match(at.only and at.only.entry or '', '^(%d+) (%d+) ?(%d*)$')
  if tonumber(token) ~= at.last then
    return nil
  end
  local claim = at.only.claim
  local life = holder(session_of(claim))
  if place == '' then -- the token may be ahead of the clock
    place = token < life.from and token or life.from
  elseif tonumber(place) >= life.ends then -- so may the place, if the clock was set back
    place = life.from
  end
  local waits = at.kind ~= 'mutex' and ' NO_MUTEX ' or at.seq and ' IN_LINE ' or ' NOBODY '
  local lasts = life.lasts
  if place ~= life.from or #lasts ~= TAIL_LASTS_END then
    lasts = string.format('LASTS_FORM', math.ceil((life.ends - place) / TICKS))
  end
  return waits .. place .. ' ' .. lasts .. ' ' .. string.sub(at.kind, 1, 1) .. ' ' .. claim
    .. ' ' .. (at.kind == 'mutex' and '' or at.size .. ' ' .. weight .. ' ') .. life.label
end

local function save_one(rest)
  if at.keeps or not at.is_one then
    now()
    at.fresh, at.keeps = second + TRUSTED, true
  end
  if not at.is_one and at.is_written then
    redis.call('DEL', held)
  elseif at.must then
    redis.call('HDEL', held, '-')
  end
  redis.call('HSET', held, 'one', long(at.last) .. ' ' .. at.fresh .. rest)
end

-- Deletes fields before it sets others: a server with full memory refuses only the first write of a script, and a leave
-- must not be refused.
local function save_all()
  if at.used == 0 then -- so nobody waits: the first waiter always fits into a line without holders
    puts = {}
    drop('line')
    drop('seq')
    for session in pairs(holders) do
      drop('LIVES' .. session)
    end
  else
    if at.stood then
      put('HOLDS' .. at.stood.claim, at.stood.entry)
    end
    if at.void > 0 then -- or a renewal would let the keys expire before the void claims
      at.ttl = math.ceil(math.max(at.ttl, at.void - now() / TICKS))
    end
    put('line', at.size .. ' ' .. at.used .. ' ' .. at.ttl .. ' ' .. long(at.ends) .. ' 0 ' .. at.kind)
    if at.seq and not at.old_seq then
      put('seq', '1')
    elseif at.old_seq and not at.seq then
      drop('seq')
    end
    for session, known in pairs(holders) do
      if known.changed and known.count == 0 then
        drop('LIVES' .. session)
      elseif known.changed then
        put('LIVES' .. session,
          known.from .. ' ' .. known.lasts .. ' ' .. known.count .. ' ' .. long(known.sum) .. ' ' .. known.label)
      end
    end
  end
  if at.void > 0 then
    put('void', string.format('%.0f', at.void))
  end
  if at.is_one or next(granted) then
    put('last', long(at.last))
  end
  if at.must and #drops == 0 then
    drop('-')
  end
  in_pieces('HDEL', held, drops)
  in_pieces('HSET', held, puts)
  if at.is_one then
    redis.call('HDEL', held, 'one')
  end
end

-- The caller's own grants, the last part of this script's reply: number, token, size, …
local own = {}

local function tell(session, words)
  local channels = string.sub(held, 1, string.find(held, '{', 1, true) - 1)
  redis.call('PUBLISH', channels .. session, words)
end

-- Writes the state. The keys of a line in use outlive all its claims; those of an idle name keep the newest token.
local function save()
  if at.seq and at.has_less and at.kind == 'mutex' and not first() then
    at.seq = false
    redis.call('DEL', wait)
  end
  if at.used == 0 then
    at.seq = false
  end
  for _, known in pairs(waiters) do
    at.keeps = at.keeps or known.changed and at.seq -- the key `wait` may be new
  end
  local rest = rest_of_one()
  at.in_one = rest ~= nil
  if rest then
    save_one(rest)
  else
    save_all()
  end
  for session, known in pairs(waiters) do
    if known.changed and at.seq then
      redis.call('HSET', wait, 'LIVES' .. session,
        known.from .. ' ' .. known.lasts .. (known.born == '' and ' ' or 'BORN' .. known.born .. ' ') .. known.label)
    end
  end
  if at.forgets then
    redis.call('ZREMRANGEBYSCORE', line, VOID, '+inf')
  end
  if at.keeps then
    local life = with_token(math.ceil(math.max(KEPT, at.ttl * 4, at.void > 0 and at.void - now() / TICKS or 0)))
    redis.call('PEXPIRE', held, life)
    if at.seq then
      redis.call('PEXPIRE', line, life)
      redis.call('PEXPIRE', wait, life)
    elseif at.void > 0 then
      redis.call('PEXPIRE', line, math.ceil(at.void - now() / TICKS))
    end
  end
  -- Each client gets one message with all its grants.
  local words = {}
  for _, claim in ipairs(granted) do
    local session, number = session_of(claim), string.sub(claim, CLAIM_NUMBER)
    if session == caller then
      own[#own + 1] = tonumber(number)
      own[#own + 1] = granted[claim]
      own[#own + 1] = at.size
    else
      words[session] = words[session] or { 'held' }
      table.insert(words[session], number .. ' ' .. long(granted[claim]) .. ' ' .. at.size)
    end
  end
  for session, told in pairs(words) do
    tell(session, table.concat(told, ' '))
  end
end

-- Records a claim as held, with a new token and with its session's lifetime `alive`.
local function grant(claim, weight, alive, place)
  now()
  at.last = math.max(at.last + 1, ticks)
  granted[claim] = at.last
  at.only = at.used == 0 and { claim = claim }
  at.used = at.used + weight
  at.ends = math.min(at.ends, alive.ends)
  hold(claim, weight .. ' ' .. long(at.last) .. (place and ' ' .. place or ''))
  local known = count(claim, 1)
  if known.ends < alive.ends then
    known.ends, known.from, known.lasts = alive.ends, alive.from, alive.lasts
  end
  known.label = alive.label
end

-- Removes waiting claims from the line.
local function stop_waiting(claims)
  at.has_less = true
  redis.call('ZREM', line, unpack(claims))
  if at.kind ~= 'mutex' then -- every claim on a mutex weighs 1
    local weights = {}
    for i, claim in ipairs(claims) do
      weights[i] = 'WEIGHS' .. claim
    end
    redis.call('HDEL', wait, unpack(weights))
  end
end

-- Grants the next waiters while they fit, and removes the dead ones that it meets. One script grants at most 1 000, so
-- that it does not take long. Then it tells the next waiter's client to look, and that look grants more. So do the
-- joins, leaves and looks of all other clients.
local function settle()
  local was_waited, most, many, fits = at.seq, GRANTS, 1, true
  while fits and at.seq and at.used < at.size and #granted < most do
    many = math.min(many, most - #granted)
    local some = redis.call('ZRANGE', line, '0', many - 1, 'WITHSCORES')
    local fields, out = {}, {}
    while some[2 * #fields + 2] and tonumber(some[2 * #fields + 2]) < VOID do
      fields[#fields + 1] = 'WEIGHS' .. some[2 * #fields + 1]
    end
    local weights = at.kind ~= 'mutex' and fields[1] and redis.call('HMGET', wait, unpack(fields))
    for i = 1, #fields do
      local claim, place, weight = some[2 * i - 1], some[2 * i], weights and tonumber(weights[i] or 0) or 1
      local known = waiter(session_of(claim))
      local ends, from = ends_of(known, place)
      local is_dead = ends <= now() or weight == 0
      if not is_dead and at.used + weight > at.size then
        at.next_ends, fits = ends, false -- when this waiter dies, those behind it may be granted
        break
      elseif not is_dead then
        grant(claim, weight, { ends = ends, from = from, lasts = known.lasts, label = known.label }, place)
        granted[#granted + 1] = claim
      end
      out[#out + 1] = claim
    end
    if out[1] then
      stop_waiting(out)
    end
    at.seq = at.seq and (not fits or #fields == many)
    many = math.min(many * 2, WAITERS)
  end
  if fits and at.seq and at.used < at.size then
    local next_one = first()
    at.seq = next_one
    if next_one then
      at.next_ends = 0
      tell(session_of(next_one), 'look ' .. string.match(held, '{(.*)}'))
    end
  end
  if was_waited and not at.seq then
    redis.call('DEL', wait)
  end
end

-- Forgets some dead sessions that have no claims here any more. It waits for an hour, because for an hour a join may
-- have trusted that its session is known here, and its claim may be alive although the known lifetime is over. It also
-- checks that no claim of that time is left in line: a dead claim of a forgotten session would come alive with the
-- session's next claim.
local function forget_some()
  local front = redis.call('ZRANGE', line, '0', '0', 'WITHSCORES')[2]
  local some = front and redis.call('HRANDFIELD', wait, MET, 'WITHVALUES') or {}
  for i = 1, #some, 2 do
    local from, lasts = string.match(some[i + 1], '^(%d+) (%d+)[ BORN]')
    if from and from + lasts * TICKS + TRUSTED_TICKS <= now() and from + TRUSTED_TICKS < tonumber(front) then
      redis.call('HDEL', wait, some[i])
    end
  end
end

-- Counts the holders anew from all fields. Removes holders whose sessions are dead or not known.
local function recount(all)
  local counts, sums, used = {}, {}, 0
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, MARK) == 'HOLDS' then
      local claim = string.sub(all[i], MARK + 1)
      local session = session_of(claim)
      local known = holders[session]
      if known and known.ends > 0 then
        used = used + tonumber(string.match(all[i + 1], '^%d+'))
        counts[session] = (counts[session] or 0) + 1
        sums[session] = (sums[session] or 0) + number_of(claim)
      else
        let_go(claim, all[i + 1])
      end
    end
  end
  at.used = used
  for session, known in pairs(holders) do
    local count, sum = counts[session] or 0, sums[session] or 0
    if known.count ~= count or known.sum ~= sum then
      known.count, known.sum, known.changed = count, sum, true
    end
  end
end

-- Removes dead holders. This walks the holders, at most once in a lifetime. It also does so when the clock was set
-- back, because no lifetime is longer than the longest ttl. On the way it counts everything anew: a script that was
-- refused a command half-way may have removed a claim without updating the counts.
local function sweep()
  if not at.kind or (now() < at.ends and at.ends <= now() + at.ttl * TICKS) then
    return
  end
  local all, dead = at.stood and {} or redis.call('HGETALL', held), {}
  at.ends = math.huge
  local function look(session, ends)
    if ends <= now() then
      dead[session] = true
      drop('LIVES' .. session)
      holders[session] = { ends = 0, count = 0, sum = 0, label = '' }
    else
      at.ends = math.min(at.ends, ends)
    end
  end
  if at.stood then
    local session = session_of(at.stood.claim)
    look(session, holders[session].ends)
    if dead[session] then
      let_go(at.stood.claim, at.stood.entry)
    end
  end
  for i = 1, #all, 2 do
    if string.sub(all[i], 1, MARK) == 'LIVES' then
      local session = string.sub(all[i], MARK + 1)
      look(session, holder(session, all[i + 1]).ends)
    end
  end
  if not at.stood then
    recount(all)
  end
  if at.seq then
    forget_some()
  end
end

-- In how many ms the first lifetime ends that the waiters depend on.
local function look_in()
  return math.max(math.ceil((math.min(at.ends, at.next_ends or math.huge) - now()) / TICKS), 0) + 1
end

