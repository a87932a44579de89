import keuka

keuka.match("SELECT * FROM Clicks", [{"at": 1}], time="at", lateness="soon")
