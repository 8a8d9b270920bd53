local function own_script(KEYS, ARGV, known_time)

