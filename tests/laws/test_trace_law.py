"""What a trace tells is what happens: its interpreter gives the results of the definitions, whatever it leaves out of the text."""

from __future__ import annotations

from hypothesis import given

from keuka.algebra.operators import Program

from .outcomes import by_trace, check
from .streams import Rows
from .test_laws import examples, expected


@given(examples())
def test_the_matches_of_a_trace_are_those_of_the_definitions(example: tuple[str, Program, Rows]):
    text, program, streams = example
    check(text, streams, expected(program, streams), by_trace(program, streams))
