-- The claims of dead clients that no transaction of a user has locked.
SELECT 'd', session, number FROM tidelock_claim FORCE INDEX (PRIMARY)
WHERE name = {name} AND state < 2 AND session IN ({sessions})
ORDER BY state, place LIMIT {most} FOR UPDATE SKIP LOCKED;
