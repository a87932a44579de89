import pyarrow as pa
import pyarrow.parquet as pq

import keuka

pq.write_table(pa.table({"at": list(range(1000))}), "clicks.parquet")
with open("clicks.parquet", "rb+") as file:
    file.truncate(500)
keuka.match("SELECT * FROM Clicks", "clicks.parquet", time="at")
