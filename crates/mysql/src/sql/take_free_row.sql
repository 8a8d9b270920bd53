({name}, {kind}, {capacity}, GREATEST({now} DIV 10, COALESCE((SELECT token + 1 FROM tidelock_floor WHERE id = 1), 0)),
  {me}, {number}, {weight}, {now})
