SELECT rung FROM tidelock_bell WHERE session = {me};
