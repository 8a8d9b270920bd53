
-- lighten: reduces the weight of a held claim in place, and grants the waiters that fit now.
-- ARGV caller claim weight
-- replies {done, the caller's grants} | {absent} | {permits, weight}.
local claim, weight = ARGV[2], tonumber(ARGV[3])

at.must = true -- if it were refused, the holder would have to give the claim back
local mine = read(claim)
if not mine or holder(session_of(claim)).ends <= now() then
  return { 'absent', {} }
end
local before, rest = string.match(mine, '^(%d+)( .*)$')
if weight > tonumber(before) then
  return { 'permits', tonumber(before) }
end
if at.seq then
  sweep()
end
hold(claim, ARGV[3] .. rest)
at.used = at.used - tonumber(before) + weight
settle()
save()
return { 'done', own }
