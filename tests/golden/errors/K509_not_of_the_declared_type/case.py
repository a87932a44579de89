from pathlib import Path

import keuka

Path("ticks.csv").write_text("at,price\n03/01/2024 09:10,7\n")
keuka.match("SELECT price FROM Ticks", keuka.Stream("ticks.csv", schema="at TIMESTAMP"))
