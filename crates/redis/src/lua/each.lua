local function usual(KEYS, ARGV, known_time)

