from pathlib import Path

import pyarrow as pa

import keuka

table = pa.table({"at": pa.array([1], pa.timestamp("us", "Europe/Paris")), "n": [1]})
sink = pa.BufferOutputStream()
with pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table)
Path("ticks.arrow").write_bytes(sink.getvalue().to_pybytes().replace(b"Europe/Paris", b"Europe/\xff\xff\xff\xff\xff"))
keuka.match("SELECT n FROM S", "ticks.arrow")
