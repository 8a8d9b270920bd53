-- Inside the user's transaction, if that is one of this store, on the server that noted the slot: it locks a slot, if that
-- is not locked, and stamps it anew. Until it ends, nobody else can stamp the slot, and everybody still sees the old stamp,
-- which is the mark of the claim.
-- Every read here locks, also that of the version, which nobody changes: any other one would begin the snapshot of a
-- REPEATABLE READ transaction, and after a wait for its next lock it would read what was before that.
-- First a savepoint: outside of a transaction none is made, and to release it fails.
SAVEPOINT tidelock_begun;
RELEASE SAVEPOINT tidelock_begun;
SET @tidelock_slot = NULL;
SELECT slot INTO @tidelock_slot FROM `{database}`.tidelock_slot WHERE slot = {slot} AND stamp = {mark}
  AND (SELECT v.store FROM `{database}`.tidelock_version v WHERE v.version = {version} LOCK IN SHARE MODE) = {store}
  AND @@GLOBAL.server_id = {server}
FOR UPDATE SKIP LOCKED;
UPDATE `{database}`.tidelock_slot SET stamp = {mark} + 1, session = {session}, number = {number}
WHERE slot = @tidelock_slot;
