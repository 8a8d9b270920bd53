-- With the lines locked: either a claim waits by now, or it will find the line empty.
START TRANSACTION;
SELECT COUNT(*) FROM tidelock_line WHERE name IN ({names}) FOR UPDATE;
SELECT DISTINCT 'W', name FROM tidelock_claim WHERE name IN ({names}) AND state = 1;
COMMIT;
