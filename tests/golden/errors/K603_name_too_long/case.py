import pyarrow as pa
import pyarrow.parquet

import keuka
from keuka.pipelines import Input, Queries, Sink

pa.parquet.write_table(pa.table({"t": [1]}), "ticks.parquet")
keuka.Pipeline(
    streams={"Stock": Input("parquet", path="ticks.parquet", time="t")},
    queries=[Queries(text="SELECT * FROM Stock")],
    sinks=[Sink("parquet", path="a" * 300)],
).check(embedded=True)
