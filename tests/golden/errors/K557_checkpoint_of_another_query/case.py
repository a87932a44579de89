from keuka.spark.shard_state import require_same

# What a checkpoint says of itself, and what a streaming query asks of it.
made_for = {"meaning": {"Rises": "00"}, "results": {}, "columns": {}, "key": {}, "lateness": {"Ticks": 0}, "idle_after": None, "shards": 4}
require_same(made_for, {**made_for, "meaning": {"Rises": "01"}, "idle_after": 60.0, "shards": 8})
