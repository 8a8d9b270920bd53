SELECT 'R', COALESCE(MAX(rung), 0) FROM tidelock_bell WHERE session = {me};
