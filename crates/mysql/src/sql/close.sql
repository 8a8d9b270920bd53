-- A claim that holds has left, or is inside a transaction that still has its row.
DELETE FROM tidelock_session WHERE id = {me};
DELETE FROM tidelock_bell WHERE session = {me};
DELETE FROM tidelock_claim WHERE session = {me} AND state > 0;
