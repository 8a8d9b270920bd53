-- Lines that are empty, as after a user's transaction, are free again.
UPDATE tidelock_line SET spilled = EXISTS (SELECT 1 FROM tidelock_claim c WHERE c.name = tidelock_line.name AND {counts c})
WHERE name IN ({names}) AND spilled = 1;
