-- Says who holds now, and rings for the clients that do not hear this.
SELECT 'a', name, session, number, token FROM tidelock_line WHERE name IN ({names}) AND spilled = 0;
INSERT INTO tidelock_bell (session, rung)
SELECT DISTINCT session, 1 FROM tidelock_line WHERE name IN ({names}) AND spilled = 0 AND session NOT IN (0, {me})
ON DUPLICATE KEY UPDATE rung = tidelock_bell.rung + 1;
