-- Gives names back that have no other claim. `since` marks the rows that this statement changed.
UPDATE tidelock_line SET session = 0, since = {mark}
WHERE name IN ({names}) AND spilled = 0 AND session = {me} AND number IN ({numbers}) AND waiters = '';
