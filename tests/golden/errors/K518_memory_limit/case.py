import keuka

engine = keuka.Engine(time="t", memory_limit="100 kB")
engine.add("SELECT n_1 FROM Orders NEXT Payments", name="paid")
engine.push("Orders", [{"t": t, "n": t} for t in range(10_000)])
