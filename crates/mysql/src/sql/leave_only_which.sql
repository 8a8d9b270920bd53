SELECT 'f', number FROM tidelock_line WHERE name IN ({names}) AND session = 0 AND since = {mark};
