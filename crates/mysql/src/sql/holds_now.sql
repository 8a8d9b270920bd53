-- Who holds now.
SELECT 'a', name, session, number, token FROM tidelock_line WHERE name IN ({names}) AND spilled = 0;
