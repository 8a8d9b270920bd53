-- Whose slots have their stamps, committed or not. Then all that are there, and whether they still count: one that does and
-- has no stamp was rolled back. And where somebody waits. First a change of nothing: a server that is a replica now refuses
-- it, and it knows no transaction that is open on another one.
UPDATE tidelock_slot SET stamp = 0 WHERE slot = 0;
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
SELECT 'o', c.number FROM tidelock_claim c JOIN tidelock_slot t ON t.slot = c.slot
WHERE c.session = {me} AND c.number IN ({numbers}) AND t.session = c.session AND t.number = c.number;
SELECT 'v', c.number, {counts c} FROM tidelock_claim c WHERE c.session = {me} AND c.number IN ({numbers});
SELECT DISTINCT 'w', name FROM tidelock_claim WHERE name IN ({names}) AND state = 1;
