
end
local reply, kept = script(), {}
for i, key in ipairs(KEYS) do
  kept[i] = real.call('PEXPIRETIME', key)
end
return { reply, told, real.call('HGETALL', KEYS[1]), real.call('ZRANGE', KEYS[2], '0', '-1', 'WITHSCORES'),
  real.call('HGETALL', KEYS[3]), kept }
