SELECT (SELECT weight FROM tidelock_claim
  WHERE session = {session} AND number = {number} AND name = {name} AND state = 0) INTO @t_was;
UPDATE tidelock_claim FORCE INDEX (claim) SET weight = {weight}
WHERE session = {session} AND number = {number} AND name = {name} AND state = 0 AND weight > {weight};
SELECT 'w', {number}, @t_was;
