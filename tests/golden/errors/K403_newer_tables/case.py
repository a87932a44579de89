import struct

from keuka.automaton.tables import from_bytes

from_bytes(struct.pack("<8sIIQ", b"KEUKATAB", 7, 0, 0))
