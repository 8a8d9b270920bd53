({name}, {kind}, {capacity}, GREATEST({now} DIV 10, {floor}), {me}, {number}, {weight}, {now})
