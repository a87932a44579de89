import keuka

ticks = [{"t": n // 10, "n": n} for n in range(120)]
keuka.match("SELECT n FROM Ticks FOLD {TRUE, TRUE} Ticks PUBLISH Runs", ticks, time="t", limits=keuka.Limits(memory="10 MB"))
