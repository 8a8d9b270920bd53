-- Rings for the client of a claim that another client took out.
INSERT INTO tidelock_bell (session, rung) SELECT id, 1 FROM tidelock_session WHERE id = {session}
ON DUPLICATE KEY UPDATE rung = rung + 1;
