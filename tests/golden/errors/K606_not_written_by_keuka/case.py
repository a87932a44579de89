from pathlib import Path

import keuka

Path("found").mkdir()
Path("found/old.csv").touch()
Path("ticks.csv").write_text("time,price\n2024-01-02 09:10:00,90\n")
Path("pipeline.toml").write_text("""
[streams.Stock]
format = "csv"
path = "ticks.csv"

[[queries]]
text = "SELECT * FROM Stock"

[[sinks]]
format = "csv"
path = "found"
mode = "overwrite"
""")
keuka.Pipeline.from_file("pipeline.toml").run(embedded=True)
