-- In lines of other kinds: the first waiters whose clients live, as long as they fit, each with the next token.
UPDATE tidelock_claim c FORCE INDEX (PRIMARY) JOIN (
  SELECT place, session, nth FROM (
    SELECT place, session, SUM(weight) OVER (ORDER BY place) AS run, ROW_NUMBER() OVER (ORDER BY place) AS nth FROM (
      SELECT c.place, c.session, c.weight
      FROM tidelock_claim c FORCE INDEX (PRIMARY)
      WHERE c.name = IF(@t_kind = 1 OR @t_used >= @t_capacity, x'', {name}) AND c.state = 1
        AND (SELECT s.expires FROM tidelock_session s WHERE s.id = c.session) > @t_now
      ORDER BY c.place LIMIT {most}
    ) alive
  ) summed WHERE run + @t_used <= @t_capacity
) fits ON c.name = {name} AND c.state = 1 AND c.place = fits.place AND c.session = fits.session
SET c.state = 0, c.token = @t_base + fits.nth - 1, c.since = @t_now;
