-- Inside the user's transaction: until it ends, nobody else can change this row, and everybody still sees what it was.
-- Only a column that is in no index changes, so the row of the primary key is all that is locked: with a deleted row, others
-- that look for its neighbours in an index would wait for it too. By the primary key, because a transaction that is
-- REPEATABLE READ would lock the gap before the row in any other index.
UPDATE `{database}`.tidelock_claim SET weight = 0
WHERE name = {name} AND state = 0 AND place = {place} AND session = {session} AND number = {number};
