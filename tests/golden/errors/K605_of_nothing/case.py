from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

import keuka

pyarrow.parquet.write_table(pa.table({"ts": pa.array([0], pa.timestamp("us")), "price": [1.0]}), "ticks.parquet")
Path("pipeline.toml").write_text("""
[streams.Stock]
format = "parquet"
path = "ticks.parquet"

[[queries]]
text = "SELECT * FROM FILTER {price > 100} (Stock) PUBLISH High"

[[sinks]]
of = "high"
format = "console"
""")
keuka.Pipeline.from_file("pipeline.toml").check()
