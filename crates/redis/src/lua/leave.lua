-- leave: all other cases, such as a line in which others hold too, or a claim that is not known.
local claim, how, ttl = string.sub(ARGV[1], 1, -2), ARGV[2] or 'done', tonumber(ARGV[4] or 0)
caller = ARGV[3] or session_of(claim)

at.must = true -- a leave must not be refused
local left = 'absent'
local mine = read(claim)
if mine then
  left = 'held'
elseif waits(claim) then
  left = 'waiting'
  stop_waiting({ claim })
end
if at.seq and left ~= 'absent' then -- or a grant to another claim of its session would revive a dead holder
  if mine and holder(session_of(claim)).ends <= now() then
    mine = false
    at.ends = 0
  end
  sweep()
end
if mine then
  let_go(claim, mine)
  count(claim, -1)
end

if how == 'void' then
  local this_ms = math.floor(now() / TICKS)
  at.void = math.max(at.void, this_ms + ttl)
  redis.call('ZREMRANGEBYSCORE', line, VOID, VOID + this_ms)
  redis.call('ZADD', line, string.format('%.0f', VOID + this_ms + ttl), claim)
  at.keeps, at.forgets = true, false
end
if left ~= 'absent' then
  settle()
  if session_of(claim) ~= caller then
    tell(session_of(claim), 'gone ' .. string.sub(claim, CLAIM_NUMBER))
  end
end
if left ~= 'absent' or how == 'void' then
  save()
end
return { left, own }
