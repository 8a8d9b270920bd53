-- What a client has in line, or void, without what holds: the row of a holder may be inside a user's transaction, and
-- a statement that only passes by it would wait for that.
SELECT 'V', number FROM tidelock_claim WHERE session = {session} AND state >= {state} AND since + {age} < {now};
