from pathlib import Path

import keuka

Path("pipeline.toml").write_text("""
[streams.Stock]
format = "delta"
path = "ticks"

[[queries]]
text = "SELECT * FROM Stock"

[[sinks]]
format = "console"
""")
keuka.Pipeline.from_file("pipeline.toml").run(embedded=True)
