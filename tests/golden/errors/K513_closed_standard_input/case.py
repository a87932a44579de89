from unittest.mock import patch

import keuka

with patch("sys.stdin", None):
    keuka.match("SELECT volume FROM Ticks", "-", time="t")
