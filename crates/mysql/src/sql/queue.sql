-- The claims behind the first one that joins a mutex: whatever became of that one, nobody among these holds.
SET @t_queues = @t_alive AND @t_kind = 1 AND (@t_holders > 0 OR @t_waiting);
INSERT IGNORE INTO tidelock_claim (name, state, place, session, number, weight, token, since)
SELECT {name}, 1, @t_place + j.nth, {me}, j.number, 1, 0, @t_now FROM ({rows}) j WHERE @t_queues ORDER BY j.nth;
SET @t_place = @t_place + {count};
SELECT 'k', number, state FROM tidelock_claim WHERE session = {me} AND number IN ({numbers});
