-- 1 holds, 2 waits, 3 refused, 4 void, 5 stands already, 6 session over, 7 another kind, 8 too heavy.
SELECT (SELECT state FROM tidelock_claim WHERE session = {me} AND number = {number}) INTO @t_was;
SET @t_kind = IF(@t_holders = 0 AND NOT @t_waiting, {kind}, @t_kind);
SET @t_capacity = IF(@t_holders = 0 AND NOT @t_waiting, {capacity}, @t_capacity);
SET @t_out = CASE WHEN @t_was = 2 THEN 4 WHEN NOT @t_alive THEN 6 WHEN @t_was IS NOT NULL THEN 5
  WHEN @t_kind <> {kind} THEN 7 WHEN {weight} > @t_capacity THEN 8
  WHEN NOT @t_waiting AND @t_used + {weight} <= @t_capacity THEN 1 WHEN {patient} THEN 2 ELSE 3 END;
SET @t_token = IF(@t_out = 1, GREATEST(@t_token + 1, @t_now DIV 10), @t_token);
SET @t_place = @t_place + 1;
INSERT INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT {name}, @t_out - 1, @t_place, {me}, {number}, {weight}, IF(@t_out = 1, @t_token, 0), @t_now
FROM DUAL WHERE @t_out <= 2;
SET @t_used = @t_used + IF(@t_out = 1, {weight}, 0);
SET @t_holders = @t_holders + (@t_out = 1);
SET @t_waiting = @t_waiting OR @t_out = 2;
SELECT 'j', {number}, @t_out, @t_token, @t_kind, @t_capacity;
