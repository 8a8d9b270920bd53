{name}, {kind}, {capacity}, {least}, {me}, {number}, {weight}, {since}
