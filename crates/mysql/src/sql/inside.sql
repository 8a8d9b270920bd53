-- Inside the user's transaction: until it ends, nobody else can change this row, and everybody still sees what it was.
-- Only a column that is in no index changes, and the row is found by the primary key, so the row there is all that is
-- locked. A deleted row would stand in each index until the end; and in the unique index `claim` the same key can stand
-- twice, until a grant's old entry is purged, so that a search there locks the gaps beside it.
UPDATE `{database}`.tidelock_claim FORCE INDEX (PRIMARY) SET weight = 0
WHERE name = {name} AND state = 0 AND place = {place} AND session = {session} AND number = {number};
