import keuka

keuka.match("SELECT n * 4 AS m FROM S", [{"at": 1, "n": 2**62}], time="at")
