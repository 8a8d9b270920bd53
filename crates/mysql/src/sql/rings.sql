SELECT 'R', rung FROM tidelock_bell WHERE session = {me};
