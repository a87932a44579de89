from pathlib import Path

import keuka

Path("ticks.csv").write_text("at,price\n03/01/2024 09:10,7\n04/01/2024 09:10,8\n")
keuka.match("SELECT price FROM Ticks", "ticks.csv", time="at")
