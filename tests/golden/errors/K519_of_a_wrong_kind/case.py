import json

import keuka
from keuka.run import state_bytes

engine = keuka.Engine(time="t")
engine.push("S", [{"t": 1, "n": 1}])
sections = state_bytes.unpack(engine.snapshot())
facts = json.loads(sections["engine"])
facts["streams"][0]["n_rows"] = "many"
keuka.Engine().restore(state_bytes.pack(sections | {"engine": json.dumps(facts).encode()}))
