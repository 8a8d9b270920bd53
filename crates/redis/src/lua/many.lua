
end

-- many: one script for several names. The function before this is the name's own script.
-- KEYS held line wait of each name    ARGV as many words for each name as its own script gets
-- replies with what the own script of each name replies; or with nothing for a name whose script has failed. That name is
-- to be asked alone, so that its error has the usual form.
local replies, time, words = {}, redis.call('TIME'), 3 * #ARGV / #KEYS
for i = 1, #KEYS / 3 do
  local keys, args = { KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i] }, {}
  for word = 1, words do args[word] = ARGV[words * (i - 1) + word] end
  local is_done, reply = pcall(own_script, keys, args, time)
  replies[i] = is_done and reply
end
return replies
