import keuka

keuka.match("SELECT * FROM Clicks", 42, time="at")
