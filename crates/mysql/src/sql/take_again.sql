-- Takes one name that was free a moment ago; the statement's own number is the token. A name that is not free, or not there
-- any more, is left alone.
UPDATE tidelock_line SET kind = {kind}, capacity = {capacity}, session = {me}, number = {number}, weight = {weight},
  since = {now}, token = LAST_INSERT_ID(GREATEST(token + 1, {now} DIV 10))
WHERE name = {name} AND spilled = 0 AND session = 0
  AND (SELECT s.expires FROM tidelock_session s WHERE s.id = {me}) > {now};
