import keuka

keuka.match("SELECT * FROM Visits", [{"from": 1, "to": 3}, {"from": 5, "to": 4}], time=("from", "to"))
