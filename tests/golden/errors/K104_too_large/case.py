from pathlib import Path

import keuka

Path("rise.cel").write_text("SELECT price FROM Ticks" + " " * 16_000_000)
keuka.query("rise.cel")
