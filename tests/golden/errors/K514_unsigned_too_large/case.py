import pyarrow as pa

import keuka

keuka.match("SELECT * FROM Clicks", pa.table({"at": [1], "n": pa.array([2**64 - 1], pa.uint64())}), time="at")
