import keuka

engine = keuka.Engine(time="t", memory_limit="10 MB")
engine.add("SELECT n FROM Ticks FOLD {TRUE, TRUE} Ticks", name="runs")
engine.push("Ticks", [{"t": n // 10, "n": n} for n in range(120)])
