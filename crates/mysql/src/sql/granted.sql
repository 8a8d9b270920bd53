-- Says who was granted, and rings for the clients that do not hear this.
SELECT 'g', session, number, token FROM tidelock_claim WHERE name = {name} AND state = 0 AND token >= @t_base;
INSERT INTO tidelock_bell (session, rung)
SELECT DISTINCT session, 1 FROM tidelock_claim
WHERE name = {name} AND state = 0 AND token >= @t_base AND session <> {me}
ON DUPLICATE KEY UPDATE rung = tidelock_bell.rung + 1;
