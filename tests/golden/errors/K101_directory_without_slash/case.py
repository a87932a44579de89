from pathlib import Path

import keuka

Path("rules").mkdir()
keuka.query("rules")
