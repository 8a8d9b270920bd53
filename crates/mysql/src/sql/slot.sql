-- Gives a claim that holds, and has a row of its own, another slot than the one it had: if this arrives a second time, when
-- the claim has got yet another one, it does nothing. It stands behind the lock of the line (begin), as all that changes
-- whether a claim counts: another transaction may stamp the slot of before at any moment, and whoever finds that nobody
-- holds must not see this claim come alive again. An UPDATE of two tables would lock what it reads, and wait for the
-- transaction that has the slot.
UPDATE tidelock_claim FORCE INDEX (claim)
SET slot = {slot}, mark = (SELECT t.stamp FROM tidelock_slot t WHERE t.slot = {slot})
WHERE session = {me} AND number = {number} AND name = {name} AND state = 0 AND slot = {from} AND {counts tidelock_claim};
SELECT 'x', slot, mark, @@GLOBAL.server_id FROM tidelock_claim
WHERE session = {me} AND number = {number} AND name = {name} AND state = 0
  AND slot = {slot} AND {counts tidelock_claim};
