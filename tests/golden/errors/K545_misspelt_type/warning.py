import keuka

readings = [{"t": t, "kind": kind, "tag": 7} for t, kind in enumerate(["shelf", "counter", "exit", "shelf"])]
keuka.match(keuka.sase("SEQ(shelf s, !countre c, exit e) WHERE [tag] WITHIN 5"), readings, time="t", type_column="kind")
