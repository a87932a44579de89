import keuka

with keuka.Engine(time="at") as engine:
    engine.push("Clicks", [{"at": 1, "payload": {"user": {"id": 7}}}])
    engine.add("SELECT at, payload FROM Clicks PUBLISH Seen")
    engine.add("SELECT payload.user.id FROM Seen")
