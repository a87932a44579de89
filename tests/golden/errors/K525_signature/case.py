import keuka

engine = keuka.Engine(time="t")
engine.push("S", [{"t": 1, "n": 1}])
snapshot = engine.snapshot(key="a key that is long enough")
keuka.Engine().restore(snapshot, key="another key, long enough")
