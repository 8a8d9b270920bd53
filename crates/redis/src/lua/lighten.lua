
-- lighten: makes a held claim weigh less where it stands, and grants whoever fits now.
-- ARGV caller channels claim weight
-- replies {done, the caller's grants} | {absent} | {permits, weight}.
local claim, weight = ARGV[3], tonumber(ARGV[4])

local mine = read('h:' .. claim)
if not mine then
  return { 'absent', {} }
end
local before, rest = string.match(mine, '^(%d+)( .*)$')
if weight > tonumber(before) then
  return { 'permits', tonumber(before) }
end
put('h:' .. claim, ARGV[4] .. rest)
at.used = at.used - tonumber(before) + weight
settle()
save()
return { 'done', own }
