-- check: tests whether this user may run every command of the other scripts. Uses its own keys and deletes them again.
-- KEYS held line wait    ARGV caller channels
-- replies {} | {command, the server's error}.
local tries = {
  { 'TIME' },
  { 'HSET', KEYS[1], 'a', '1' },
  { 'HGET', KEYS[1], 'a' },
  { 'HMGET', KEYS[1], 'a', 'b' },
  { 'HGETALL', KEYS[1] },
  { 'HDEL', KEYS[1], 'a' },
  { 'ZADD', KEYS[2], '1', 'a' },
  { 'ZSCORE', KEYS[2], 'a' },
  { 'ZRANGE', KEYS[2], '0', '0' },
  { 'ZREM', KEYS[2], 'a' },
  { 'ZPOPMIN', KEYS[2] },
  { 'HRANDFIELD', KEYS[1], '1', 'WITHVALUES' },
  { 'ZREMRANGEBYSCORE', KEYS[2], '-inf', '0' },
  { 'PEXPIRE', KEYS[2], '1' },
  { 'DEL', KEYS[1], KEYS[2] },
  { 'PUBLISH', ARGV[2] .. ARGV[1], 'hello' },
}
for _, words in ipairs(tries) do
  local answer = redis.pcall(unpack(words))
  if type(answer) == 'table' and answer.err then
    redis.pcall('DEL', KEYS[1], KEYS[2])
    return { words[1], answer.err }
  end
end
return {}
