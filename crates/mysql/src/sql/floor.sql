-- The time, and the least token of a name without a row. The floor is locked: nobody drops such a row between this and
-- what is taken next.
SELECT {now}, GREATEST({now} DIV 10, COALESCE((SELECT token + 1 FROM tidelock_floor WHERE id = 1 LOCK IN SHARE MODE), 0))
INTO @t_since, @t_least;
