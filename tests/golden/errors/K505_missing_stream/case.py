import keuka

keuka.match("SELECT * FROM Clicks NEXT Mails", {"Clicks": [{"at": 1}]}, time="at")
