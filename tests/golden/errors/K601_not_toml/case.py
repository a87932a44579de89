from pathlib import Path

import keuka

Path("pipeline.toml").write_text('[streams.Stock]\nformat = "parquet\npath = "ticks"\n')
keuka.Pipeline.from_file("pipeline.toml")
