from pathlib import Path
from unittest.mock import patch

import keuka

Path("pipe").write_text("t,volume\n1,4000\n2,50")
with open("pipe") as pipe, patch("sys.stdin", pipe):
    keuka.match("SELECT volume FROM Ticks", "-", time="t")
