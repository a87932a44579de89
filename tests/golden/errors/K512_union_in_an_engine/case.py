import pyarrow as pa

import keuka

codes = pa.array([0, 1], pa.int8())
either = pa.UnionArray.from_sparse(codes, [pa.array([1, 2]), pa.array(["a", "b"])])
keuka.Engine(time="t").push("S", pa.table({"t": [1, 2], "either": either}))
