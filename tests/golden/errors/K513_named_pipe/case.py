import os

import keuka

os.mkfifo("ticks.csv")
keuka.match("SELECT volume FROM Ticks", "ticks.csv", time="t")
