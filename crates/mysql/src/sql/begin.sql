-- A section about one line begins: locks it, if it exists.
SELECT 'b' FROM tidelock_line WHERE name = {name} FOR UPDATE;
