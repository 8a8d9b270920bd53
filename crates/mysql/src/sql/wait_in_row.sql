-- The waiters of a line, after one of these claims has come: it waits behind the only holder of a mutex, if there is room in
-- the row. Not twice, not if its client is dead, and not if it is the holder.
IF(VALUES(number) IN ({numbers}) AND spilled = 0 AND session <> 0 AND kind = 1
    AND NOT (session = {me} AND number = VALUES(number)) AND LENGTH(waiters) < {room}
    AND LOCATE(CONCAT('.{padded}.', VALUES(number), ':'), waiters) = 0
    AND {lives},
  CONCAT(waiters, LPAD(VALUES(since), 16, '0'), '.{padded}.', VALUES(number), ':'), waiters)
