-- A void claim whose client's row is gone keeps no join out: that client has none under way.
DELETE c FROM tidelock_claim c FORCE INDEX (PRIMARY) LEFT JOIN tidelock_session s ON s.id = c.session
WHERE c.name = {name} AND c.state = 2 AND s.id IS NULL;
