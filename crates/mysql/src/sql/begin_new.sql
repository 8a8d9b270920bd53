-- A section about one line begins: locks it, and makes its row if there is none.
INSERT INTO tidelock_line (name, kind, capacity, token) VALUES ({name}, 0, 0, 0)
ON DUPLICATE KEY UPDATE place = place;
