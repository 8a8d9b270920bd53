DELETE FROM tidelock_claim WHERE session = {session} AND number IN ({numbers}) AND state >= {state};
