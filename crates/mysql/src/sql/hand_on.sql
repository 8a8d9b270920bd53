-- Leaves the mutex of a single row. The first waiter gets it, if its client lives; a line whose first waiter is dead is left
-- alone. What is read is assigned last.
UPDATE tidelock_line SET token = IF(waiters = '', token, GREATEST(token + 1, {now} DIV 10)), since = {now},
  number = IF(waiters = '', number, CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(waiters, ':', 1), '.', -1) AS UNSIGNED)),
  session = IF(waiters = '', 0, CAST(SUBSTR(waiters, 18, 20) AS UNSIGNED)),
  waiters = SUBSTR(waiters, LOCATE(':', waiters) + 1)
WHERE name = {name} AND spilled = 0 AND session = {me} AND number = {number} AND (waiters = '' OR (
  SELECT s.expires FROM tidelock_session s WHERE s.id = CAST(SUBSTR(waiters, 18, 20) AS UNSIGNED)) > {now});
