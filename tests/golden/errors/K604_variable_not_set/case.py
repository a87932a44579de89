from pathlib import Path

import keuka

Path("pipeline.toml").write_text("""
[streams.Orders]
format = "jdbc"
options = { url = "jdbc:postgresql://db/shop", dbtable = "orders", password = "${KEUKA_SHOP_PASSWORD}" }

[[queries]]
text = "SELECT * FROM Orders"

[[sinks]]
format = "console"
""")
keuka.Pipeline.from_file("pipeline.toml").run()
