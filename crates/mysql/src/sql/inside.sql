-- Inside the user's transaction, if that is one of this store: it locks a slot, if that is not locked, and stamps it anew.
-- Until it ends, nobody else can stamp the slot, and everybody still sees the old stamp, which is the mark of the claim.
SET @tidelock_slot = NULL;
SELECT slot INTO @tidelock_slot FROM `{database}`.tidelock_slot WHERE slot = {slot} AND stamp = {mark}
  AND (SELECT v.store FROM `{database}`.tidelock_version v WHERE v.version = {version}) = {store}
FOR UPDATE SKIP LOCKED;
UPDATE `{database}`.tidelock_slot SET stamp = {mark} + 1, session = {session}, number = {number}
WHERE slot = @tidelock_slot;
