SELECT 'C', name, number, state FROM tidelock_claim WHERE session = {me};
