from decimal import Decimal

import pyarrow as pa

import keuka

prices = pa.array([Decimal("9999999999999999.99")], pa.decimal128(18, 2))
keuka.match("SELECT price + 0.01 AS more FROM Trades", pa.table({"at": [1], "price": prices}), time="at")
