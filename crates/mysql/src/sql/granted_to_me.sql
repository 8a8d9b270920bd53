-- After the bell: which claims of the caller hold on these names.
SELECT 'G', c.number, c.token, l.capacity FROM tidelock_claim c JOIN tidelock_line l ON l.name = c.name
WHERE c.name IN ({names}) AND c.state = 0 AND c.session = {me}
UNION ALL SELECT 'G', number, token, capacity FROM tidelock_line WHERE name IN ({names}) AND spilled = 0 AND session = {me};
