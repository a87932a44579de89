from pathlib import Path

import keuka

Path("ticks.csv").write_text('t,name\n1,"IBM"\n2,"De\n')
keuka.match("SELECT name FROM Ticks", "ticks.csv", time="t")
