
  return false -- another case: the name is to be asked alone
end

-- many: one script for several names, each with the usual case of join or leave, which is the function before this.
-- KEYS held line wait of each name    ARGV as many words for each name as its own script gets
-- replies with one element for each name: what its own script replies, or its error; or nothing, if it has to be asked
-- alone. What befalls one name does not concern the others.
local replies, time, words = {}, redis.call('TIME'), 3 * #ARGV / #KEYS
for i = 1, #KEYS / 3 do
  local keys, args = { KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i] }, {}
  for word = 1, words do args[word] = ARGV[words * (i - 1) + word] end
  local is_done, reply = pcall(usual, keys, args, time)
  if not is_done and type(reply) ~= 'table' then reply = { err = reply } end -- a text before Redis 7
  replies[i] = reply
end
return replies
