import pyarrow as pa

import keuka

keuka.match("SELECT * FROM Clicks", pa.table({"at": pa.array([1_714_557_600_000_000_001], pa.timestamp("ns"))}))
