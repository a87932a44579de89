"""Signed snapshots: only what was written with the key is restored, and nothing else is looked at."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

import keuka
from keuka import snapshots

from .live import RISES, rows

KEY = b"0123456789abcdef"
OLD = Path(__file__).parents[1] / "golden" / "snapshots" / "version_1.snapshot"
HEAD = b"KEUKASIG\x01\0\0\0"


@pytest.fixture
def engine() -> keuka.Engine:
    engine = keuka.Engine(time="t")
    engine.add(RISES, name="rises")
    engine.push("S", rows((1, "a", 5), (2, "a", 6), (3, "a", 7)))
    return engine


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a snapshot may be parsed."""

    def read(data: bytes) -> None:
        raise AssertionError("a snapshot was read before its signature was checked")

    monkeypatch.setattr(snapshots, "from_bytes", read)


def refused(snapshot: bytes, key: Any = None) -> str:
    engine = keuka.Engine()
    with pytest.raises(keuka.DataError) as raised:
        engine.restore(snapshot, key=key)
    assert raised.value.code == "K525"
    assert engine.rules == {}
    return str(raised.value)


@pytest.mark.parametrize("key", [KEY, KEY.decode(), bytearray(KEY), "ключ из букв"])
def test_a_signed_snapshot_is_restored_with_its_key(engine: keuka.Engine, key: Any) -> None:
    resumed = keuka.Engine()
    resumed.restore(engine.snapshot(key=key), key=key)
    assert list(resumed.rules) == ["rises"]
    assert resumed.close().to_pylist() == engine.close().to_pylist()


def test_a_text_is_the_same_key_as_its_bytes(engine: keuka.Engine) -> None:
    keuka.Engine().restore(engine.snapshot(key=KEY.decode()), key=KEY)


def test_the_signature_is_an_hmac_before_the_unsigned_snapshot(engine: keuka.Engine) -> None:
    plain = engine.snapshot()
    assert engine.snapshot(key=KEY) == HEAD + hmac.new(KEY, HEAD + plain, hashlib.sha256).digest() + plain


def test_an_unsigned_snapshot_is_refused_with_a_key(engine: keuka.Engine, unread: None) -> None:
    assert "the snapshot is not signed" in refused(engine.snapshot(), KEY)
    assert "the snapshot is not signed" in refused(OLD.read_bytes(), KEY)
    for garbage in (b"", b"KEUKASIG", HEAD[:-1]):
        assert "the snapshot is not signed" in refused(garbage, KEY)


def test_a_signed_snapshot_is_refused_without_its_key(engine: keuka.Engine, unread: None) -> None:
    assert "give the key with which it was signed" in refused(engine.snapshot(key=KEY))


def test_another_key_is_refused(engine: keuka.Engine, unread: None) -> None:
    assert "signed with another key" in refused(engine.snapshot(key=KEY), KEY[::-1])


def test_every_changed_byte_is_refused_before_anything_is_read(engine: keuka.Engine, unread: None) -> None:
    signed = engine.snapshot(key=KEY)
    for i in [*range(len(HEAD) + 40), *range(0, len(signed), 97), len(signed) - 1]:
        refused(signed[:i] + bytes([signed[i] ^ 1]) + signed[i + 1 :], KEY)
    for cut in (0, 11, 12, 43, 44, 45, len(signed) - 1):
        refused(signed[:cut], KEY)
    refused(signed + b"\0", KEY)


def test_a_short_key_is_refused_and_not_shown(engine: keuka.Engine) -> None:
    for call in (lambda: engine.snapshot(key="tooshort"), lambda: engine.restore(b"", key=b"tooshort")):
        with pytest.raises(keuka.DataError, match="the key has 8 bytes") as raised:
            call()
        assert raised.value.code == "K525"
        assert "tooshort" not in str(raised.value)


def test_a_key_of_another_kind_is_a_type_error(engine: keuka.Engine) -> None:
    for key in (5, ["k"], True):
        with pytest.raises(TypeError, match="must be bytes or a str, not"):
            engine.snapshot(key=key)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="must be bytes or a str, not"):
            engine.restore(engine.snapshot(), key=key)  # type: ignore[arg-type]
