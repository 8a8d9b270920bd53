local caller = ARGV[1]

