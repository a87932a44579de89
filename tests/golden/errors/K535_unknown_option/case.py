from pathlib import Path

import keuka

Path("ticks.csv").write_text("at;price\n2024-03-01 09:10;7\n")
keuka.match("SELECT price FROM Ticks", keuka.Stream("ticks.csv", csv={"seperator": ";"}))
