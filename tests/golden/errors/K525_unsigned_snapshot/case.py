import keuka

engine = keuka.Engine(time="t")
engine.push("S", [{"t": 1, "n": 1}])
keuka.Engine().restore(engine.snapshot(), key="a key that is long enough")
