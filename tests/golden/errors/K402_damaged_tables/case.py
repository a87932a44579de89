from keuka.automaton.tables import from_bytes

from_bytes(b"not tables at all, but long enough to be some")
