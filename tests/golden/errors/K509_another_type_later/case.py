import pyarrow as pa

import keuka

batches = [pa.record_batch({"at": [1], "n": [1]}), pa.record_batch({"at": [2], "n": ["two"]})]
keuka.match("SELECT * FROM Clicks", batches, time="at")
