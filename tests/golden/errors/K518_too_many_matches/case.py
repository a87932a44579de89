import keuka

ticks = [{"t": n, "n": n} for n in range(1_000)]
keuka.match(keuka.sase("SEQ(Ticks a, Ticks b) PUBLISH Pairs"), ticks, time="t", limits=keuka.Limits(matches=100_000))
