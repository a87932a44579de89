import keuka

keuka.match(keuka.sase(f"SEQ({', '.join(['S'] * 65)}) WHERE [n]"), [{"t": 1, "n": 1}], time="t")
