INSERT INTO tidelock_session (id, ttl, expires, label) VALUES ({me}, {ttl}, {now} + {ttl}, {label});
INSERT INTO tidelock_bell (session, rung) VALUES ({me}, 0) ON DUPLICATE KEY UPDATE rung = rung;
