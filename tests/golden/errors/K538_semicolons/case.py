from pathlib import Path

import keuka

Path("ticks.csv").write_text("at;name;price\n2024-03-01 09:10;IBM;7,5\n")
keuka.match("SELECT price FROM Ticks", "ticks.csv")
