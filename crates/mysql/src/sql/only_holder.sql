-- The lines whose only holder is the caller's, or that have waiters of the caller in their rows.
SELECT 'I', name, IF(session = {me}, number, NULL), IF(LOCATE('.{padded}.', waiters) > 0, waiters, '') FROM tidelock_line
WHERE spilled = 0 AND name IN ({names}) AND (session = {me} OR LOCATE('.{padded}.', waiters) > 0);
