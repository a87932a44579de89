import keuka

unpaid = keuka.sase("SEQ(Shelf s, !Counter c, Exit e) WHERE [tag] WITHIN 60")
readings = [{"t": 1, "tag": 7}]
unpaid.trace({"Shelf": readings, "Counter": readings, "Exit": readings}, time="t")
