"""What a trace tells is what happens: its interpreter gives the results of the definitions, whatever it leaves out of the text."""

from __future__ import annotations

from hypothesis import given

from .outcomes import by_trace, check
from .queries import programs
from .test_laws import Example, examples, expected


@given(examples(programs()))
def test_the_matches_of_a_trace_are_those_of_the_definitions(example: Example):
    text, program, streams = example
    check(text.text, streams, expected(program, streams), by_trace(program, streams))
