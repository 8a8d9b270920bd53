-- Which of them: only if not all.
SELECT 'f', number FROM tidelock_line WHERE ROW_COUNT() <> {count} AND name IN ({names}) AND session = 0 AND since = {mark};
