import keuka

keuka.match("SELECT * FROM Clicks", [{"at": 1}, {"at": None}], time="at")
