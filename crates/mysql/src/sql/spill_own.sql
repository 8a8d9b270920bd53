-- What was taken just now gets rows like all others, so that a user's transaction can have such a row without the
-- line's. Says where it stands.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT name, 0, place + 1, session, number, weight, token, since FROM tidelock_line
WHERE name IN ({names}) AND spilled = 0 AND session = {me} AND number IN ({numbers});
UPDATE tidelock_line SET place = place + 1, spilled = 1, session = 0
WHERE name IN ({names}) AND spilled = 0 AND session = {me} AND number IN ({numbers});
SELECT 'i', number, place, token FROM tidelock_claim WHERE session = {me} AND number IN ({numbers}) AND state = 0
  AND EXISTS (SELECT 1 FROM tidelock_session WHERE id = {me} AND expires > {now});
