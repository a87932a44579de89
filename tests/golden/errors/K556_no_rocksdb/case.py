from keuka.spark.streaming import require_rocksdb

# What a session says that was told nothing else.
require_rocksdb("org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
