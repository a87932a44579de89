import keuka

events = [{"at": 1, "payload": {"user": {"id": 7}}}]
keuka.match("SELECT payload.usr.id FROM Clicks", events, time="at")
