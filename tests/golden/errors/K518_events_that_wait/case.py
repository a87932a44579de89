import pyarrow as pa

import keuka

ticks = pa.table({"t": range(100_000)})
reader = pa.RecordBatchReader.from_batches(ticks.schema, ticks.to_batches())
keuka.match("SELECT t FROM Ticks", keuka.Stream(reader, time="t", lateness=1_000_000), limits=keuka.Limits(memory="200 kB"))
