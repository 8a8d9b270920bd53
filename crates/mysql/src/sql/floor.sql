-- The least token of a name without a row. It is locked: nobody drops such a row between this and what is taken next.
SELECT COALESCE(MAX(token), 0) + 1 INTO @t_floor FROM tidelock_floor WHERE id = 1 LOCK IN SHARE MODE;
