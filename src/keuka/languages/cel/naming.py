"""Names of attributes after NEXT and FOLD (docs/semantics.md, 4): `A_n` for the n-th input of a chain, plain `A` for the last that has it.

Chains are counted over plain parentheses and FILTERs; a query (SELECT or FROM), a stream read by name and a UNION start afresh.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Label:
    """The name of an attribute in a chain: the one its input gave it, and which input of the chain that was."""

    name: str
    own_name: str
    input: int  # counted from 1

    @property
    def is_given(self) -> bool:
        """Was the name made by us?"""
        return self.name != self.own_name

    def numbered(self) -> Label:
        return replace(self, name=f"{self.own_name}_{self.input}")


@dataclass(frozen=True)
class Chain:
    labels: tuple[Label, ...]
    n_inputs: int

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([label.name for label in self.labels])


def fresh(names: Iterable[str]) -> Chain:
    return Chain(tuple([Label(name, name, 1) for name in names]), 1)


def chained(first: Chain, second: Chain) -> Chain:
    """The names after NEXT; they may collide, see `collisions`."""
    later = [replace(label, input=label.input + first.n_inputs) for label in second.labels]
    later = [label.numbered() if label.is_given else label for label in later]
    own = {label.name for label in later if not label.is_given}
    earlier = [label.numbered() if label.name in own and not label.is_given else label for label in first.labels]
    return Chain((*earlier, *later), first.n_inputs + second.n_inputs)


@dataclass(frozen=True)
class FoldNames:
    """The names after FOLD: the starting values, then the values after the latest step.

    A numbered attribute that no step can change would be there twice under one name: its second copy is left out (None).
    """

    start: tuple[Label, ...]
    latest: tuple[Label | None, ...]
    n_inputs: int

    @property
    def chain(self) -> Chain:
        return Chain((*self.start, *[label for label in self.latest if label is not None]), self.n_inputs)


def folded(first: Chain, second: Chain, changing: set[str]) -> FoldNames:
    """`changing` are the names of the attributes that a step replaces."""
    n_inputs = first.n_inputs + second.n_inputs
    start = tuple([label if label.is_given else label.numbered() for label in first.labels])
    latest = [None if label.is_given and label.name not in changing else Label(label.name, label.name, n_inputs) for label in first.labels]
    return FoldNames(start, tuple(latest), n_inputs)


def collisions(chain: Chain) -> tuple[str, ...]:
    """The names that more than one attribute has."""
    return tuple([name for name, count in Counter(chain.names).items() if count > 1])
