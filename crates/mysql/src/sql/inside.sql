-- Inside the user's transaction: until it ends, nobody else can change this row, and everybody still sees it.
DELETE FROM `{database}`.tidelock_claim WHERE session = {session} AND number = {number} AND state = 0;
