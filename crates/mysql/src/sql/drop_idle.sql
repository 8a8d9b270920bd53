DELETE FROM tidelock_line
WHERE name IN ({names}) AND session = 0 AND spilled = 0 AND token < ({now} - {age}) DIV 10;
