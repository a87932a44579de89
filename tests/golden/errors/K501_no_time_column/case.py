import keuka

keuka.match("SELECT * FROM Clicks", [{"user": "ann", "page": 1}])
