-- Directly behind hand_on: rings for the client that got the mutex, if it does not hear this.
INSERT INTO tidelock_bell (session, rung)
SELECT session, 1 FROM tidelock_line WHERE ROW_COUNT() = 1 AND name = {name} AND spilled = 0 AND session NOT IN (0, {me})
ON DUPLICATE KEY UPDATE rung = tidelock_bell.rung + 1;
