-- A waiter leaves that is in the row of its line.
UPDATE tidelock_line SET waiters = INSERT(waiters, LOCATE({waiter}, waiters) - 16, 16 + LENGTH({waiter}), '')
WHERE name = {name} AND spilled = 0 AND LOCATE({waiter}, waiters) > 0;
