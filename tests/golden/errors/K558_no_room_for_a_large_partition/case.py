import errno
from unittest import mock

import pyarrow as pa

from keuka.events.sources import Stream, open_stream
from keuka.spark.sorted_runs import SortedRuns

rows = pa.table({"ts": [2, 1], "k": [1, 1]})
full = OSError(errno.ENOSPC, "No space left on device")
with mock.patch("tempfile.TemporaryFile", side_effect=full):
    SortedRuns(open_stream("Ticks", Stream(rows, time="ts"))).add(rows)
