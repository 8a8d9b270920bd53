-- Where another claim is the only holder, it becomes a row like all others, so that mine can wait behind it.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT name, 0, place + 1, session, number, weight, token, since FROM tidelock_line
WHERE name IN ({names}) AND spilled = 0 AND session <> 0 AND kind = 1 AND NOT (session = {me} AND number IN ({numbers}));
UPDATE tidelock_line SET place = place + 1, spilled = 1, session = 0
WHERE name IN ({names}) AND spilled = 0 AND session <> 0 AND kind = 1 AND NOT (session = {me} AND number IN ({numbers}));
