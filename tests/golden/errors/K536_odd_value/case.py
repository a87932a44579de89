from pathlib import Path

import keuka

prices = ["90", "85", "n/a", "81", "n/a", "91", "90", "92"]
Path("ticks.csv").write_text("at,price\n" + "".join([f"{i},{price}\n" for i, price in enumerate(prices)]))
keuka.match("SELECT price FROM Ticks NEXT {$2.price > $1.price} Ticks", "ticks.csv", time="at")
