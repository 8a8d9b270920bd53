SELECT 'I', name, number FROM tidelock_line WHERE session = {me} AND spilled = 0 AND name IN ({names});
