import json

import keuka
from keuka.run import checkpoints

engine = keuka.Engine(time="t")
engine.push("S", [{"t": 1, "n": 1}])
sections = checkpoints.unpack(engine.snapshot())
facts = json.loads(sections["engine"])
facts["streams"][0]["n_rows"] = "many"
keuka.Engine().restore(checkpoints.pack(sections | {"engine": json.dumps(facts).encode()}))
