-- What was taken just now gets rows like all others, and slots, for a user's transaction. Says which. What was taken
-- earlier, and is waited for in its row, is left alone.
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since, slot, mark)
SELECT l.name, 0, l.place + 1, l.session, l.number, l.weight, l.token, l.since, t.slot, t.stamp
FROM tidelock_line l JOIN tidelock_slot t ON t.slot = ELT(FIELD(l.number, {numbers}), {slots})
WHERE l.name IN ({names}) AND l.spilled = 0 AND l.session = {me} AND l.number IN ({numbers}) AND l.waiters = '';
UPDATE tidelock_line SET place = place + 1, spilled = 1, session = 0
WHERE name IN ({names}) AND spilled = 0 AND session = {me} AND number IN ({numbers}) AND waiters = '';
SELECT 'i', number, token, slot, mark, @@GLOBAL.server_id FROM tidelock_claim
WHERE session = {me} AND number IN ({numbers}) AND state = 0
  AND EXISTS (SELECT 1 FROM tidelock_session WHERE id = {me} AND expires > {now});
