import keuka

keuka.match("SELECT * FROM Clicks", [{"user": "ann", "at": 1}], time="ts")
