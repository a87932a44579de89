import keuka

keuka.match("SELECT * FROM Clicks", [{"at": "tomorrow"}], time="at")
