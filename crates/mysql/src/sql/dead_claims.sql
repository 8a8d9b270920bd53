-- The claims of dead clients. Then those whose slots have their stamps, committed or not: if such a claim still counts, a
-- user's transaction has it.
SELECT 'd', c.session, c.number, {counts c} FROM tidelock_claim c WHERE c.name = {name} AND c.state < 2
  AND c.session IN ({sessions}) ORDER BY c.state, c.place LIMIT {most};
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;
SELECT 'o', c.session, c.number FROM tidelock_claim c JOIN tidelock_slot t ON t.slot = c.slot
WHERE c.name = {name} AND c.state = 0 AND c.session IN ({sessions}) AND t.session = c.session AND t.number = c.number;
