from pathlib import Path

import keuka

Path("pipeline.toml").write_text("""
[streams.Stock]
formt = "parquet"
path = "ticks"
""")
keuka.Pipeline.from_file("pipeline.toml")
