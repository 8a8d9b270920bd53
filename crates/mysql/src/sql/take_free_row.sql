({name}, {kind}, {capacity}, {now} DIV 10, {me}, {number}, {weight}, {now})
