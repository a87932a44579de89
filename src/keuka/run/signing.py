"""Signatures of snapshots, for those who keep snapshots where others can write.

The bytes of `snapshots.py` come in; a head, an HMAC over head and bytes, and the bytes go out. A checksum finds accidents;
whoever changes a snapshot on purpose repairs it. Only a signature, made with a key that others do not have, says that the bytes
are those that were written. An unsigned snapshot has no such head, and stays as it is.
"""

from __future__ import annotations

import hmac

from keuka.errors import DataError, data_error

_HEAD = b"KEUKASIG" + b"\x01\0\0\0"  # a magic of its own, and the version of this layout: HMAC with SHA-256
_N_SIGNATURE = 32
FEWEST_KEY_BYTES = 16


def key_bytes(key: object) -> bytes:
    """The key as bytes; a text is taken as UTF-8. No message shows it."""
    if isinstance(key, str):
        key = key.encode(errors="surrogatepass")
    if not isinstance(key, bytes | bytearray | memoryview):
        raise TypeError(f"the key of a snapshot must be bytes or a str, not {type(key).__name__}")
    key = bytes(key)
    if len(key) < FEWEST_KEY_BYTES:
        problem = f"the key has {len(key)} bytes, and a snapshot is signed with at least {FEWEST_KEY_BYTES}"
        raise _refused(problem, "make a random one, `secrets.token_bytes(32)`, and keep it where the snapshots are not")
    return key


def sign(snapshot: bytes, key: object) -> bytes:
    """The snapshot with its signature before it."""
    return _HEAD + _signature(snapshot, key_bytes(key)) + snapshot


def verify(data: bytes, key: object) -> bytes:
    """The snapshot without its signature. Nothing of it has been looked at but whether the signature fits."""
    is_signed = data.startswith(_HEAD)
    if key is None:
        if is_signed:
            raise _refused("the snapshot is signed, and no key was given", "give the key with which it was signed: `key=`")
        return data
    checked = key_bytes(key)
    if not is_signed:
        raise _refused("a key was given, and the snapshot is not signed", "sign snapshots when they are taken: `snapshot(key=...)`")
    begin = len(_HEAD) + _N_SIGNATURE
    snapshot = data[begin:]
    if not hmac.compare_digest(data[len(_HEAD) : begin], _signature(snapshot, checked)):
        problem = "the signature of the snapshot does not fit: it was changed, or signed with another key"
        raise _refused(problem, "restore one that you trust, with the key with which it was signed")
    return snapshot


def _signature(snapshot: bytes, key: bytes) -> bytes:
    digest = hmac.new(key, _HEAD, "sha256")
    digest.update(snapshot)
    return digest.digest()


def _refused(problem: str, remedy: str) -> DataError:
    return data_error("K525", problem, remedy)
