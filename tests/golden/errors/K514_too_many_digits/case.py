from decimal import Decimal

import pyarrow as pa

import keuka

prices = pa.array([Decimal("12.50"), Decimal("12345678901234567.89")], pa.decimal128(38, 2))
keuka.match("SELECT price FROM FILTER {price > 10} Trades", pa.table({"at": [1, 2], "price": prices}), time="at")
