"""W2 and W3 in DuckDB, as self-joins on one thread over a table that is loaded before the clock starts.

The plain joins compare every two events of a key, so they take longer per event the longer the stream is. The bucketed joins compare
only events of the same or the next stretch of time, as long as the window. An A enters both its own bucket and the next.

What was tried, millions of events per second of CPU time at 500k / 2M / 10M events (2 noisy cores; the best of three runs, one run at
10M). The first of each line is what is here:

W2 plain     23.0 / 15.2 / 2.2   without the materialized types 19.6 / 12.7 / 2.3; without an upper bound for b.ts 9.5 / 1.4
W2 bucketed  24.4 / 25.1 / 24.5  B and C in two buckets instead of A 22.7 / 24.0 / 22.9; not materialized 22.5 / 22.1 / 20.6; buckets
                                 of four windows as well 21.8 / 21.5 / 20.9; UNNEST instead of UNION ALL 20.0 / 19.9; lists over a
                                 RANGE window 8.4 / 8.3
W3 plain     21.4 / 15.6 / 4.4   not materialized 18.2 / 12.7 / 3.8; ANTI JOIN instead of NOT EXISTS, not materialized 20.0 / 13.1 / 2.5
W3 bucketed  23.4 / 24.0 / 21.3  B and C in two buckets instead of A 22.8 / 23.7 / 20.4; NOT EXISTS, not materialized 20.6 / 21.1 / 20.9;
                                 ASOF JOIN with the last B 16.3 / 17.7 / 15.5; runs between B numbered by a window function
                                 14.3 / 13.4 / 9.4
"""

from __future__ import annotations

import warnings

import duckdb
import pyarrow as pa

from workloads.w2 import WINDOW

warnings.filterwarnings("ignore", "Arrow output on a DB-API result", UserWarning)  # see `join`

NAMED = f"e AS MATERIALIZED (SELECT ts, type, id, attr1, ts // {WINDOW} AS bucket FROM events WHERE type IN ('A', 'B', 'C'))"
A_TWICE = """
    a AS (SELECT ts, id, attr1, bucket FROM e WHERE type = 'A' UNION ALL SELECT ts, id, attr1, bucket + 1 FROM e WHERE type = 'A')
"""

W2_PLAIN = f"""
WITH e AS MATERIALIZED (SELECT ts, type, id, attr1 FROM events WHERE type IN ('A', 'B', 'C'))
SELECT a.ts AS a_ts, b.ts AS b_ts, c.ts AS c_ts, a.id AS a_id, b.id AS b_id, c.id AS c_id, a.attr1
FROM e a
JOIN e b ON b.attr1 = a.attr1 AND b.ts > a.ts AND b.ts <= a.ts + {WINDOW}
JOIN e c ON c.attr1 = a.attr1 AND c.ts > b.ts AND c.ts <= a.ts + {WINDOW}
WHERE a.type = 'A' AND b.type = 'B' AND c.type = 'C'
"""

# A pair of A and B waits for its C in the bucket of B and, if the window reaches so far, in the next.
W2_BUCKETED = f"""
WITH {NAMED}, {A_TWICE},
    ab AS (SELECT a.ts AS a_ts, b.ts AS b_ts, a.id AS a_id, b.id AS b_id, a.attr1, b.bucket
           FROM a JOIN e b ON b.type = 'B' AND b.attr1 = a.attr1 AND b.bucket = a.bucket AND b.ts > a.ts AND b.ts <= a.ts + {WINDOW}),
    pair AS (SELECT * FROM ab UNION ALL
             SELECT a_ts, b_ts, a_id, b_id, attr1, bucket + 1 FROM ab WHERE (a_ts + {WINDOW}) // {WINDOW} > bucket)
SELECT a_ts, b_ts, c.ts AS c_ts, a_id, b_id, c.id AS c_id, pair.attr1
FROM pair JOIN e c ON c.type = 'C' AND c.attr1 = pair.attr1 AND c.bucket = pair.bucket AND c.ts > b_ts AND c.ts <= a_ts + {WINDOW}
"""

W3_PLAIN = f"""
WITH e AS MATERIALIZED (SELECT ts, type, id, attr1 FROM events WHERE type IN ('A', 'B', 'C'))
SELECT a.ts AS a_ts, c.ts AS c_ts, a.id AS a_id, c.id AS c_id, a.attr1
FROM e a JOIN e c ON c.attr1 = a.attr1 AND c.ts > a.ts AND c.ts <= a.ts + {WINDOW}
WHERE a.type = 'A' AND c.type = 'C'
  AND NOT EXISTS (SELECT 1 FROM e b WHERE b.type = 'B' AND b.attr1 = a.attr1 AND b.ts > a.ts AND b.ts < c.ts)
"""

# A pair of A and C is in the bucket of C; a B between them is in that one or in the one before, so B enters the next bucket as well.
W3_BUCKETED = f"""
WITH {NAMED}, {A_TWICE},
    ac AS (SELECT a.ts AS a_ts, c.ts AS c_ts, a.id AS a_id, c.id AS c_id, a.attr1, c.bucket
           FROM a JOIN e c ON c.type = 'C' AND c.attr1 = a.attr1 AND c.bucket = a.bucket AND c.ts > a.ts AND c.ts <= a.ts + {WINDOW}),
    b AS (SELECT ts, attr1, bucket FROM e WHERE type = 'B' UNION ALL SELECT ts, attr1, bucket + 1 FROM e WHERE type = 'B')
SELECT a_ts, c_ts, a_id, c_id, ac.attr1
FROM ac ANTI JOIN b ON b.attr1 = ac.attr1 AND b.bucket = ac.bucket AND b.ts > a_ts AND b.ts < c_ts
"""

JOINS = {"W2": {"plain": W2_PLAIN, "bucketed": W2_BUCKETED}, "W3": {"plain": W3_PLAIN, "bucketed": W3_BUCKETED}}


def load(events: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("arrow_events", events)
    connection.execute("CREATE TABLE events AS SELECT * FROM arrow_events")
    connection.unregister("arrow_events")
    return connection


def join(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """Through `execute`, though DuckDB says that it copies the rows once more than `sql`: it takes 20.9 ms where `sql` takes 22.0 (W2
    bucketed, 500k events), and the same at 10M."""
    return connection.execute(sql).to_arrow_table()
