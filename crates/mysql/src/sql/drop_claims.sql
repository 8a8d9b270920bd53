DELETE c FROM tidelock_claim c FORCE INDEX (claim) WHERE c.session = {session} AND c.number IN ({numbers}) AND c.state >= {state};
