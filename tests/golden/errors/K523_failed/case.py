import contextlib

import keuka

engine = keuka.Engine(time="t")
engine.add("SELECT n * n AS square FROM S", name="squares")
with contextlib.suppress(keuka.DataError):
    engine.push("S", [{"t": 1, "n": 2**62}, {"t": 2, "n": 1}])
engine.push("S", [{"t": 3, "n": 1}])
