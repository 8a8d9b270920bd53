-- All lines of a transaction are locked in one order, so that two transactions seldom wait for each other.
SELECT COUNT(*) FROM tidelock_line WHERE name IN ({names}) FOR UPDATE;
