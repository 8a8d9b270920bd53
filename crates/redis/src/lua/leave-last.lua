-- leave: takes one claim out of the line, wherever it stands, and grants whoever fits now.
-- KEYS held line wait void    ARGV caller channels claim how ttl idle
-- replies {held | waiting | absent, the caller's grants}; other clients are told on their channels.
-- Absent is success: a leave may be repeated, or come after the claim's lifetime ended. A void leave also keeps the
-- claim from coming alive if its join arrives later.
--
-- First the case of the only one who stands there, for the same reason as with join.
if ARGV[4] == 'done' then
  local found = redis.call('HMGET', KEYS[1], 'line', 'seq', 'h:' .. ARGV[3])
  if found[3] and not found[2] and string.match(found[1], '^%d+ (%d+)') == string.match(found[3], '^%d+') then
    redis.call('HDEL', KEYS[1], 'line', 'h:' .. ARGV[3], 's:' .. string.sub(ARGV[3], 1, 16))
    if string.sub(ARGV[3], 1, 16) ~= ARGV[1] then
      redis.call('PUBLISH', ARGV[2] .. string.sub(ARGV[3], 1, 16), 'gone ' .. string.sub(ARGV[3], 18))
    end
    return { 'held', {} }
  end
end

