"""What makes two states the same: 128-bit signatures of states and labels of edges.

A state is its own conditions and the way its instances came: the signatures of the states before it and the labels of the
edges between. Queries that are loaded together share states with equal signatures, and snapshots know states by them, so
nothing here may depend on names given by people, on numbering, or on the order in which queries came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from keuka.automaton.model import Automaton, Edge, Keep, Step
from keuka.expressions import Expression, meaning


def digest(value: object) -> bytes:
    """128 bits of a value made of tuples, lists, texts, bytes and numbers."""
    return hashlib.blake2b(repr(value).encode(), digest_size=16).digest()


def state_signatures(automaton: Automaton, ports: Sequence[bytes]) -> tuple[bytes, ...]:
    """By state. `ports` says what each stream is. Edges lead to smaller numbers, so what comes before a state is known first."""
    found: dict[int, bytes] = {}
    for index in range(len(automaton.states) - 1, -1, -1):
        state = automaton.states[index]
        ways = [edge_label(ports[s.port], s.edge, s.tag) for s in automaton.starts if s.edge.target == index]
        ways += [digest((found[i], edge_label(b"", s.edge, s.tag))) for i, s in enumerate(automaton.states) if s.edge.target == index]
        conditions = [meaning(state.skip), meaning(state.take), None if state.update is None else meaning(state.update)]
        types = [a.type.value for a in (*state.first.attributes, *state.second.attributes)]
        where = (ports[state.port], _steps(state.candidate))
        own = (*where, conditions, types, state.tag, state.window, automaton.indices, *(["history"] if state.by_history else []))
        found[index] = digest(("state", own, sorted(ways)))
    return tuple([found[i] for i in range(len(found))])


def edge_label(origin: bytes, edge: Edge, tag: int) -> bytes:
    """What happens along an edge, apart from where it leads. `origin` is the stream of a start, nothing for other edges."""
    return digest(("edge", origin, _steps(edge.steps), tag))


def slot_identity(held: tuple[int, int] | Expression) -> int:
    """Which value a slot holds, as a 63-bit number: a place of the tuple, or an expression over it."""
    kind = ("place", held) if isinstance(held, tuple) else ("value", meaning(held))
    return int.from_bytes(digest(kind)[:8], "little") >> 1


def _steps(steps: tuple[Step, ...]) -> list[object]:
    return [("keep", meaning(s.predicate)) if isinstance(s, Keep) else ("bind", meaning(s.items)) for s in steps]
