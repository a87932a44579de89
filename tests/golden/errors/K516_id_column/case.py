import keuka

keuka.match("SELECT * FROM Clicks", keuka.Stream([{"at": 1}], time="at", id="click"))
