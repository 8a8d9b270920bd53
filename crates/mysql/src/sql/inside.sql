-- Inside the user's transaction: until it ends, nobody else can change this row, and everybody still sees it. By the
-- primary key, because a transaction that is REPEATABLE READ would lock the gap before the row in any other index.
DELETE FROM `{database}`.tidelock_claim
WHERE name = {name} AND state = 0 AND place = {place} AND session = {session} AND number = {number};
