"""Texts as codes of a forest's table, and back. Those that no instance refers to are forgotten now and then."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from keuka.events.columns import ByteArray, Int32Array, Int64Array, check_text, damaged, inverted, to_kernel
from keuka.kernel.forest import Forest
from keuka.kernel.machine import Machine
from keuka.schema import Type

# Texts are looked through when they are twice what they were the last time, and never below these.
LEAST_STRINGS = 65_536
LEAST_TEXT_BYTES = 16_000_000

NO_BYTES: ByteArray = np.empty(0, np.uint8)
_STRING = 3  # type of slots in the kernel's tables


class Texts:
    def __init__(self, forest: Forest, machines: Sequence[Machine]) -> None:
        self._forest = forest
        self._strings = forest.strings
        self._machines = machines
        self._sweep_strings_at = LEAST_STRINGS
        self._sweep_text_at = LEAST_TEXT_BYTES

    def intern(self, offsets: object, data: object, valid: ByteArray | None, n: int) -> Int64Array:
        """The codes of n texts, as `columns.Intern` says."""
        codes = np.empty(n, np.int64)
        try:
            self._strings.intern(offsets, data, NO_BYTES if valid is None else valid, codes)
        except ValueError as error:
            raise damaged(0, str(error)) from None
        return codes

    def column_codes(self, column: pa.Array) -> tuple[Int64Array, ByteArray | None]:
        """The codes and the validity of a column. Raises UnfitError for text that is not UTF-8."""
        n_texts = self._strings.n_alive
        converted = to_kernel(column, Type.STRING, self.intern)
        if self._strings.n_alive > n_texts:
            check_text(column)  # known texts were looked at when they came first
        return converted

    def copy(self, codes: Int64Array, valid: ByteArray | None) -> tuple[Int32Array, ByteArray]:
        """The texts of codes, as `columns.Strings` says. They must fit into the room of the step."""
        offsets = np.empty(len(codes) + 1, np.int32)
        self._strings.byte_lengths(codes, NO_BYTES if valid is None else inverted(valid), offsets)
        self._machines[0].fit(int(offsets[-1]))
        data = np.empty(int(offsets[-1]), np.uint8)
        self._strings.copy_texts(codes, offsets, data)
        return offsets, data

    def forget(self) -> None:
        """Let go of texts that no instance refers to, if there are many."""
        if self._strings.n_alive >= self._sweep_strings_at or self._strings.n_text_bytes >= self._sweep_text_at:
            self.sweep()

    def sweep(self) -> None:
        self._strings.sweep(np.concatenate([self._forest.text_codes(), *[m.live_slots(_STRING) for m in self._machines]]))
        self._sweep_strings_at = max(LEAST_STRINGS, 2 * self._strings.n_alive)
        self._sweep_text_at = max(LEAST_TEXT_BYTES, 2 * self._strings.n_text_bytes)
