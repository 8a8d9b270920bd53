SELECT 'R', COALESCE((SELECT rung FROM tidelock_bell WHERE session = {me}), 0);
