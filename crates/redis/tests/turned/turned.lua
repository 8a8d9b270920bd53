-- Before each script, in these tests only: the last argument is the time, in µs, and keys expire by it.
local at, told, real = table.remove(ARGV), {}, redis
local millis = tonumber(at) / 1000
local redis = {}
for _, how in ipairs({ 'call', 'pcall' }) do
  redis[how] = function(...)
    local command, key, value = ...
    if command == 'TIME' then
      return { string.sub(at, 1, -7), string.format('%d', string.sub(at, -6)) }
    elseif command == 'PEXPIRE' then
      return real[how]('PEXPIREAT', key, string.format('%.0f', math.floor(millis) + value))
    elseif command == 'PUBLISH' then
      told[#told + 1] = { key, value }
      return 1
    elseif string.find(command, 'EX', 1, true) or string.find(command, 'TTL', 1, true) then
      error(command .. ' goes by a clock that is not turned')
    end
    return real[how](...)
  end
end
for _, key in ipairs(KEYS) do
  local ends = real.call('PEXPIRETIME', key)
  if ends >= 0 and ends <= millis then
    real.call('DEL', key)
  end
end

local function script()
