-- Does nothing, but needs every column and every permission that the other statements need.
SELECT name, kind, capacity, token, place, spilled, session, number, weight, since, waiters FROM tidelock_line WHERE name = x'' FOR UPDATE;
INSERT INTO tidelock_line (name, kind, capacity, token) SELECT x'', 0, 0, 0 FROM DUAL WHERE 1 = 0;
UPDATE tidelock_line SET place = 0 WHERE name = x'';
DELETE FROM tidelock_line WHERE name = x'';
SELECT name, state, place, session, number, weight, token, since, slot, mark FROM tidelock_claim FORCE INDEX (PRIMARY) WHERE name = x'' FOR UPDATE;
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT x'', 0, 0, 0, 0, 0, 0, 0 FROM DUAL WHERE 1 = 0;
UPDATE tidelock_claim FORCE INDEX (PRIMARY) SET weight = 0 WHERE name = x'';
DELETE c FROM tidelock_claim c FORCE INDEX (PRIMARY) WHERE c.name = x'';
SELECT id, ttl, expires, label FROM tidelock_session WHERE id = 0 FOR UPDATE;
UPDATE tidelock_session SET expires = 0 WHERE id = 0;
DELETE FROM tidelock_session WHERE id = 0;
SELECT session, rung FROM tidelock_bell WHERE session = 0 FOR UPDATE;
UPDATE tidelock_bell SET rung = 0 WHERE session = 0;
DELETE FROM tidelock_bell WHERE session = 0;
SELECT id, token FROM tidelock_floor WHERE id = 0 FOR UPDATE;
UPDATE tidelock_floor SET token = 0 WHERE id = 0;
SELECT slot, stamp, session, number FROM tidelock_slot WHERE slot = 0 FOR UPDATE;
UPDATE tidelock_slot SET stamp = 0 WHERE slot = 0;
