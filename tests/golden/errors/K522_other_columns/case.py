import pyarrow as pa

import keuka

before = keuka.Engine(time="t")
before.push("S", [{"t": 1, "n": 1}])
engine = keuka.Engine({"S": pa.schema({"t": pa.int64(), "n": pa.string()})}, time="t")
engine.restore(before.snapshot())
