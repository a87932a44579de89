import struct
import zlib

import keuka

snapshot = keuka.Engine().snapshot()
_, _, n_sections, _ = struct.unpack_from("<8sIII", snapshot)
numbers = struct.pack("<II", 99, n_sections)
keuka.Engine().restore(snapshot[:8] + numbers + struct.pack("<I", zlib.crc32(numbers)) + snapshot[20:])
