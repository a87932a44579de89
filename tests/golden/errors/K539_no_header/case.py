from pathlib import Path

import keuka

Path("ticks.csv").write_text("2024-03-01 09:10,IBM,7\n2024-03-01 09:11,IBM,8\n")
keuka.match("SELECT price FROM Ticks", "ticks.csv")
