from datetime import date

import keuka

keuka.match("FROM FILTER {day > 20240301} Trades", [{"at": 1, "day": date(2024, 3, 1)}], time="at")
