import keuka

engine = keuka.Engine(time="t")
engine.add("SELECT n FROM S", name="all")
engine.add("SELECT n FROM FILTER {n > 5} (S)", name="all")
