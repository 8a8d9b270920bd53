-- The floor first: whoever makes such a name's row anew finds it there, wherever the clock is by then.
START TRANSACTION;
UPDATE tidelock_floor SET token = GREATEST(token, COALESCE((SELECT MAX(token) FROM tidelock_line
  WHERE name IN ({names}) AND session = 0 AND spilled = 0 AND token < ({now} - {age}) DIV 10), 0)) WHERE id = 1;
DELETE FROM tidelock_line WHERE name IN ({names}) AND session = 0 AND spilled = 0
  AND token <= (SELECT token FROM tidelock_floor WHERE id = 1) AND token < ({now} - {age}) DIV 10;
COMMIT;
