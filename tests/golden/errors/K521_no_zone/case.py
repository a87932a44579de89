from datetime import UTC, datetime

import keuka

engine = keuka.Engine()
engine.push("S", [{"t": datetime(2024, 1, 31, 9, 30, tzinfo=UTC), "n": 1}])
engine.advance("2024-01-31T10:00")
