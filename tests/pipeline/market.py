"""A little market: its events, a query, and the parts of a pipeline over them."""

from __future__ import annotations

TICKS = """\
time,name,price
2024-01-02 09:10:00,IBM,90
2024-01-02 09:15:00,IBM,85
2024-01-02 09:16:00,DELL,30
2024-01-02 09:20:00,IBM,86.5
2024-01-02 09:22:00,DELL,31
2024-01-02 09:24:00,IBM,91
"""
RISE = "SELECT name, price_1 AS low, price AS high FROM Stock NEXT {$2.name = $1.name AND $2.price > $1.price} Stock PUBLISH Rise;"
LOWS = [(30.0, 31.0), (85.0, 86.5), (86.5, 91.0), (90.0, 91.0)]

STREAM = """
[streams.Stock]
format = "csv"
path = "ticks.csv"
"""
QUERY = """
[[queries]]
file = "rise.cel"
"""
CONSOLE = """
[[sinks]]
format = "console"
"""
