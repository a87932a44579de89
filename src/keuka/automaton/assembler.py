"""Writes programs of the kernel's register machine (`kernel/bytecode.pxd` says what each instruction does).

A Pool collects the programs and constants of a whole plan; an Assembler writes one program. Registers that hold a loaded
column stay for the whole program, so nothing is loaded twice; those of intermediate results are used again.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import MAX_PREC, Context, Decimal
from typing import Protocol

from keuka.algebra.conversions import LENGTHS, MONTHS, offsets_of
from keuka.diagnostics import Diagnostic
from keuka.errors import QueryError
from keuka.expressions import Call, Column, Duration, Expression, Literal, exponent_of, integer_of, overflows, show
from keuka.kernel.bytecode import Op
from keuka.kernel.functions import ZONE_STEP, Function
from keuka.schema import MAX_TICK, MICROSECONDS, MOST_DAYS, MOST_DECIMAL, Type

MAX_REGISTERS = 1 << 15
AS_DECIMAL = " (decimal)"  # behind expressions that can overflow, if these are decimals


class Values(Protocol):
    def __getitem__(self, index: int, /) -> int: ...


@dataclass
class Pool:
    """Programs, constants and IN lists of one plan."""

    code: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    operands: list[int] = field(default_factory=list)
    programs: list[tuple[int, int, int]] = field(default_factory=list)  # first instruction, instructions, registers
    fallible: list[str] = field(default_factory=list)  # by program: the expressions in it that can overflow, for messages
    constants: list[int] = field(default_factory=list)
    constant_texts: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    sets: list[tuple[int, int, int]] = field(default_factory=list)
    _known: dict[tuple[Type, object], int] = field(default_factory=dict)
    _zones: dict[str, int] = field(default_factory=dict)

    def constant(self, literal: Literal) -> int:
        key = (literal.type, repr(literal.value))
        if key not in self._known:
            self._known[key] = self._append(literal)
        return self._known[key]

    def _append(self, literal: Literal) -> int:
        text = -1
        if literal.type is Type.STRING:
            assert isinstance(literal.value, str)
            text = len(self.texts)
            self.texts.append(literal.value)
        self.constants.append(0 if text >= 0 else bits_of(literal))
        self.constant_texts.append(text)
        return len(self.constants) - 1

    def set_of(self, literals: Sequence[Literal]) -> int:
        first = len(self.constants)
        for literal in literals:
            self._append(literal)
        self.sets.append((first, len(literals), int(literals[0].type is Type.DOUBLE)))
        return len(self.sets) - 1

    def zone(self, name: str) -> int:
        """The offsets of a time zone, as a set."""
        if name not in self._zones:
            offsets = [since * ZONE_STEP + offset + ZONE_STEP // 2 for since, offset in offsets_of(name)]
            self._zones[name] = self.set_of([Literal(offset, Type.INTEGER) for offset in offsets])
        return self._zones[name]


def bits_of(literal: Literal) -> int:
    """The 64 bits the kernel holds a constant in."""
    if literal.type is Type.DOUBLE:
        assert isinstance(literal.value, float)
        value = literal.value
        if value == 0.0:
            value = 0.0
        if math.isnan(value):
            return 0x7FF8000000000000
        return int(struct.unpack("<q", struct.pack("<d", value))[0])
    if isinstance(literal.value, Decimal):
        # In comparisons it may have more digits than any decimal beside it.
        unscaled = int(literal.value.scaleb(-exponent_of(literal.value), _EXACT))
        return max(-MAX_TICK, min(unscaled, MAX_TICK))
    assert isinstance(literal.value, int)
    return int(literal.value)


_SAME = {  # operations with one instruction whatever the type
    "div": Op.DIV_D, "to_double": Op.TO_DOUBLE, "not": Op.NOT, "is_null": Op.NULL_TEST, "like": Op.LIKE,
    "lower": Op.LOWER, "upper": Op.UPPER, "length": Op.LENGTH, "substring": Op.SUBSTRING,
}  # fmt: skip
_BY_TYPE = {  # (integers and their kin, doubles)
    "add": (Op.ADD_I, Op.ADD_D), "sub": (Op.SUB_I, Op.SUB_D), "mul": (Op.MUL_I, Op.MUL_D), "neg": (Op.NEG_I, Op.NEG_D),
    "abs": (Op.ABS_I, Op.ABS_D), "mod": (Op.MOD_I, Op.MOD_D), "round": (Op.ROUND_I, Op.ROUND_D),
}  # fmt: skip
_FUNCTIONS = {  # those with an instruction in common
    "year": Function.YEAR, "month": Function.MONTH, "day": Function.DAY, "hour": Function.HOUR, "minute": Function.MINUTE,
    "second": Function.SECOND, "dayofweek": Function.DAY_OF_WEEK, "trim": Function.TRIM, "regexp_like": Function.REGEXP_LIKE,
    "sqrt": Function.SQRT, "ln": Function.LN, "exp": Function.EXP, "pow": Function.POW, "to_int": Function.TO_INT,
}  # fmt: skip
# By the types it converts between. None: the 64 bits stay as they are.
_CASTS: dict[tuple[Type, Type], Function | None] = {
    (Type.BOOLEAN, Type.INTEGER): None,
    (Type.BOOLEAN, Type.STRING): Function.WRITE_BOOLEAN,
    (Type.INTEGER, Type.STRING): Function.WRITE_INTEGER,
    (Type.INTEGER, Type.TIMESTAMP): Function.FROM_SECONDS,
    (Type.DOUBLE, Type.INTEGER): Function.TO_INTEGER,
    (Type.STRING, Type.BOOLEAN): Function.PARSE_BOOLEAN,
    (Type.STRING, Type.INTEGER): Function.PARSE_INTEGER,
    (Type.STRING, Type.DOUBLE): Function.PARSE_DOUBLE,
    (Type.STRING, Type.TIMESTAMP): Function.PARSE_TIME,
    (Type.STRING, Type.DATE): Function.PARSE_DATE,
    (Type.DATE, Type.STRING): Function.WRITE_DATE,
    (Type.TIMESTAMP, Type.INTEGER): Function.SECONDS,
    (Type.TIMESTAMP, Type.STRING): Function.WRITE_TIME,
    (Type.TIMESTAMP, Type.DATE): Function.DATE_OF_TIME,
}
_COMPARE = {"lt": (Op.LT_I, Op.LT_D, Op.LT_S), "le": (Op.LE_I, Op.LE_D, Op.LE_S), "eq": (Op.EQ_I, Op.EQ_D, Op.EQ_I)}
_SWAPPED = {"gt": "lt", "ge": "le"}
_CHAINED = {
    "and": (Op.AND,) * 3, "or": (Op.OR,) * 3, "coalesce": (Op.COALESCE,) * 3, "concat": (Op.CONCAT,) * 3,
    "least": (Op.LEAST_I, Op.LEAST_D, Op.LEAST_S), "greatest": (Op.GREATEST_I, Op.GREATEST_D, Op.GREATEST_S),
}  # fmt: skip


_LIMITS = {Type.DECIMAL: MOST_DECIMAL, Type.DATE: MOST_DAYS}
_EXACT = Context(prec=MAX_PREC)


def _kind(type_: Type) -> int:
    return {Type.DOUBLE: 1, Type.STRING: 2}.get(type_, 0)


class Assembler:
    """Writes one program into the pool."""

    def __init__(self, pool: Pool, named: bool = False) -> None:
        self.pool = pool
        self.named = named  # do the names of columns say which event they belong to?
        self.code: list[tuple[int, int, int, int, int]] = []
        self.exits: list[int] = []
        self.n_registers = 1  # register 0 is the result of a program over columns
        self.free: list[int] = []
        self.temporary: set[int] = set()
        self.loaded: dict[tuple[int, int], int] = {}
        self.fallible: dict[str, Type] = {}

    # -- registers ---------------------------------------------------------------------------------------------------------

    def _new(self) -> int:
        if self.free:
            return self.free.pop()
        self.n_registers += 1
        if self.n_registers > MAX_REGISTERS:
            raise QueryError(Diagnostic("K401", "the query needs more registers than a program can have", help=("split the query",)))
        return self.n_registers - 1

    def _write(self, op: int, a: int = 0, b: int = 0, c: int = 0, operands: Sequence[int] = ()) -> int:
        """Append an instruction; operand registers that were temporary may be used again, for its result at the earliest."""
        for register in set(operands) & self.temporary:
            self.temporary.discard(register)
            self.free.append(register)
        register = self._new()
        self.temporary.add(register)
        self.code.append((int(op), register, a, b, c))
        return register

    def _load(self, op: int, index: int) -> int:
        if (op, index) not in self.loaded:
            self.n_registers += 1
            self.loaded[op, index] = self.n_registers - 1
            self.code.append((int(op), self.n_registers - 1, index, 0, 0))
        return self.loaded[op, index]

    def load_event(self, column: int) -> int:
        return self._load(Op.LOAD_EVENT, column)

    def load_slot(self, slot: int) -> int:
        return self._load(Op.LOAD_SLOT, slot)

    # -- expressions -------------------------------------------------------------------------------------------------------

    def value(self, expression: Expression, sides: Mapping[int, Values]) -> int:
        """Code for an expression; its register stays valid until an instruction uses it."""
        if isinstance(expression, Column):
            return sides[expression.side][expression.index]
        if isinstance(expression, Literal):
            # Not kept in a register: ten thousand comparisons with constants would hold ten thousand of them.
            return self._write(Op.LOAD_NULL) if expression.value is None else self._write(Op.LOAD_CONST, self.pool.constant(expression))
        if isinstance(expression, Duration):
            return self._load(Op.LOAD_DUR, 0)
        return self._call(expression, sides)

    def _call(self, call: Call, sides: Mapping[int, Values]) -> int:
        if overflows(call):
            self.fallible[show(call, sided=len(sides) > 1 and not self.named)] = call.type
        if call.op == "in" and (literals := _literals(call.args[1:])):
            value = self.value(call.args[0], sides)
            op = Op.IN_SET_D if literals[0].type is Type.DOUBLE else Op.IN_SET
            found = self._write(op, value, self.pool.set_of(literals), operands=[value])
            # A NULL among the constants: what is not found is unknown.
            return found if len(literals) == len(call.args) - 1 else self._chain(Op.OR, [found, self._write(Op.LOAD_NULL)])
        if call.op == "case":
            return self._case(call, sides)
        if call.op == "cast":
            return self._cast(call, sides)
        if call.op in ("to_decimal", "decimal_to_integer", "decimal_to_string"):
            return self._cast_decimal(call, sides)
        if call.op in ("local", "date_trunc"):
            return self._in_zone(call, sides)
        if call.op == "in":
            first = self.keep(self.value(call.args[0], sides))
            return self._chain(Op.OR, (self._compare("eq", first, self.value(a, sides), call.args[0].type) for a in call.args[1:]))
        if call.op in _CHAINED:
            return self._chained(call, sides)
        registers = [self.value(a, sides) for a in call.args]
        if call.op in _SWAPPED:
            return self._compare(_SWAPPED[call.op], registers[1], registers[0], call.args[0].type)
        if call.op == "ne":
            equal = self._compare("eq", registers[0], registers[1], call.args[0].type)
            return self._write(Op.NOT, equal, operands=[equal])
        if call.op in _COMPARE:
            return self._compare(call.op, registers[0], registers[1], call.args[0].type)
        if call.op in ("scale_up", "rescale", "decimal_to_double"):
            op = Op.UNSCALE if call.op == "decimal_to_double" else Op.SCALE_UP
            scaled = self._write(op, registers[0], integer_of(call.args[1]), operands=registers[:1])
            return self._limited(scaled, Type.DECIMAL) if call.op == "rescale" else scaled
        if call.op == "to_timestamp":
            day = self._write(Op.LOAD_CONST, self.pool.constant(Literal(MICROSECONDS["day"], Type.INTEGER)))
            return self._write(Op.MUL_I, registers[0], day, operands=[*registers, day])
        if call.op in ("floor", "ceil"):
            if call.args[0].type is not Type.DOUBLE:
                return registers[0]
            return self._write(Op.FLOOR_D if call.op == "floor" else Op.CEIL_D, registers[0], operands=registers)
        if call.op in _FUNCTIONS:
            return self._function(_FUNCTIONS[call.op], *registers)
        op = _SAME[call.op] if call.op in _SAME else _BY_TYPE[call.op][call.type is Type.DOUBLE]
        a, b, c = (*registers, 0, 0)[:3]
        result = self._write(op, a, b, c, operands=registers)
        return self._limited(result, call.type) if overflows(call) and call.type in _LIMITS else result

    def _limited(self, register: int, type_: Type) -> int:
        """An error where a value is none of its type any more."""
        limit = self._write(Op.LOAD_CONST, self.pool.constant(Literal(_LIMITS[type_], Type.INTEGER)))
        return self._write(Op.LIMIT, register, limit, operands=[register, limit])

    def _function(self, function: Function, a: int, b: int | None = None) -> int:
        operands = [a] if b is None else [a, b]
        return self._write(Op.FUNCTION, a, b or 0, int(function), operands=operands)

    def _constant(self, value: int | float) -> int:
        type_ = Type.DOUBLE if isinstance(value, float) else Type.INTEGER
        return self._write(Op.LOAD_CONST, self.pool.constant(Literal(value, type_)))

    def _cast(self, call: Call, sides: Mapping[int, Values]) -> int:
        source, target = call.args[0].type, call.type
        a = self.value(call.args[0], sides)
        if target is Type.BOOLEAN and source is not Type.STRING:
            zero = self._constant(0.0 if source is Type.DOUBLE else 0)
            equal = self._compare("eq", a, zero, source)
            return self._write(Op.NOT, equal, operands=[equal])
        if target is Type.DOUBLE and source is not Type.STRING:
            double = self._write(Op.TO_DOUBLE, a, operands=[a])
            return self._times(Op.DIV_D, double) if source is Type.TIMESTAMP else double
        if (source, target) == (Type.DOUBLE, Type.TIMESTAMP):
            return self._function(Function.TO_INTEGER, self._times(Op.MUL_D, a))
        function = _CASTS[source, target]
        return a if function is None else self._function(function, a)

    def _cast_decimal(self, call: Call, sides: Mapping[int, Values]) -> int:
        source, a = call.args[0].type, self.value(call.args[0], sides)
        own_scale = integer_of(call.args[1])
        if call.op != "to_decimal":
            function = Function.WITHOUT_FRACTION if call.op == "decimal_to_integer" else Function.WRITE_DECIMAL
            return self._function(function, a, self._constant(own_scale))
        precision, scale = [integer_of(arg) for arg in call.args[2:]]
        if source in (Type.STRING, Type.DOUBLE):
            function = Function.PARSE_DECIMAL if source is Type.STRING else Function.DOUBLE_TO_DECIMAL
            a = self._function(function, a, self._constant(scale))
        elif scale != own_scale:
            a = self._function(Function.RESCALE, a, self._constant(scale - own_scale))
        return self._function(Function.WITHIN, a, self._constant(10**precision - 1))

    def _times(self, op: int, seconds: int) -> int:
        """A double multiplied or divided by the microseconds of a second."""
        second = self._constant(float(LENGTHS["second"]))
        return self._write(op, seconds, second, operands=[seconds, second])

    def _in_zone(self, call: Call, sides: Mapping[int, Values]) -> int:
        """What the clocks of a zone showed, and where the unit of time that they were in began."""
        text = [arg.value if isinstance(arg, Literal) else None for arg in call.args]
        if call.op == "local":
            time = self.value(call.args[0], sides)
            return self._write(Op.LOCAL, time, self.pool.zone(str(text[1])), operands=[time])
        unit, time = str(text[0]), self.value(call.args[1], sides)
        if len(call.args) == 2:
            return self._truncate(unit, time)
        zone, time = self.pool.zone(str(text[2])), self.keep(time)
        local = self.keep(self._write(Op.LOCAL, time, zone))
        begin = self._truncate(unit, local)
        if unit in ("day", "week", *MONTHS):
            return self._write(Op.INSTANT, begin, zone, operands=[begin])
        since = self._write(Op.SUB_I, local, begin, operands=[begin])
        return self._function(Function.MOVE_TIME, time, since)

    def _truncate(self, unit: str, time: int) -> int:
        if unit == "week":
            return self._function(Function.TRUNCATE_WEEK, time)
        if unit in MONTHS:
            return self._function(Function.TRUNCATE_MONTHS, time, self._constant(MONTHS[unit]))
        return self._function(Function.TRUNCATE_TIME, time, self._constant(LENGTHS[unit]))

    def _compare(self, op: str, a: int, b: int, type_: Type) -> int:
        return self._write(_COMPARE[op][_kind(type_)], a, b, operands=[a, b])

    def _chained(self, call: Call, sides: Mapping[int, Values]) -> int:
        return self._chain(_CHAINED[call.op][_kind(call.type)], (self.value(a, sides) for a in call.args))

    def _chain(self, op: int, registers: Iterable[int]) -> int:
        """Combine from the left; each register is asked for only when its turn comes, so few are held at a time."""
        result = -1
        for register in registers:
            result = register if result < 0 else self._write(op, result, register, operands=[result, register])
        return result

    def _case(self, call: Call, sides: Mapping[int, Values]) -> int:
        """All branches are computed, the last first; the conditions choose afterwards. Errors count only where chosen."""
        result = self.value(call.args[-1], sides)
        for i in range(len(call.args) - 3, -1, -2):
            condition, value = self.value(call.args[i], sides), self.value(call.args[i + 1], sides)
            result = self._write(Op.SELECT, condition, value, result, operands=[condition, value, result])
        return result

    def keep(self, register: int) -> int:
        """Hold a temporary register for the rest of the program."""
        self.temporary.discard(register)
        return register

    def all_of(self, registers: Iterable[int]) -> int:
        return self._chain(Op.AND, registers)

    def all_in_turn(self, registers: Sequence[int]) -> int:
        """True if all are; a later one counts only if the earlier ones are true (filters one above the other)."""
        if len(registers) == 1:
            return registers[0]
        no = self.keep(self._write(Op.LOAD_CONST, self.pool.constant(Literal(False, Type.BOOLEAN))))
        result = registers[-1]
        for earlier in reversed(registers[:-1]):
            result = self._write(Op.SELECT, earlier, result, no, operands=[earlier, result])
        return result

    def value_if(self, condition: int, value: int) -> int:
        """The value where the condition holds, null elsewhere."""
        return self._write(Op.SELECT, condition, value, self._write(Op.LOAD_NULL), operands=[condition, value])

    # -- control -----------------------------------------------------------------------------------------------------------

    def exit_unless(self, register: int) -> None:
        self.exits.append(len(self.code))
        self.code.append((int(Op.JUMP_UNLESS), 0, register, 0, 0))

    def check(self, register: int) -> None:
        """Raise if the value is an error; otherwise go on either way."""
        self.code.append((int(Op.JUMP_UNLESS), 0, self.keep(register), len(self.code) + 1, 0))

    def affect(self) -> None:
        self.code.append((int(Op.AFFECT), 0, 0, 0, 0))

    def forward(self) -> None:
        self.code.append((int(Op.FORWARD), 0, 0, 0, 0))

    def emit(self, target: int, tag: int, registers: Sequence[int]) -> None:
        self.code.append((int(Op.EMIT), tag, target, len(self.pool.operands), len(registers)))
        self.pool.operands.extend(registers)

    def finish_column(self, register: int) -> None:
        self.code.append((int(Op.MOVE), 0, register, 0, 0))

    def program(self) -> int:
        """Close the program and put it into the pool."""
        end = len(self.code)
        self.code.append((int(Op.END), 0, 0, 0, 0))
        for position in self.exits:
            op, dst, a, _, c = self.code[position]
            self.code[position] = (op, dst, a, end, c)
        self.pool.programs.append((len(self.pool.code), len(self.code), self.n_registers))
        are_decimals = bool(self.fallible) and set(self.fallible.values()) == {Type.DECIMAL}
        self.pool.fallible.append(", ".join([f"`{text}`" for text in list(self.fallible)[:3]]) + (AS_DECIMAL if are_decimals else ""))
        self.pool.code.extend(self.code)
        return len(self.pool.programs) - 1


def _literals(expressions: Sequence[Expression]) -> list[Literal]:
    """The constants that are not null, if all are constants."""
    literals = [e for e in expressions if isinstance(e, Literal)]
    return [e for e in literals if e.value is not None] if len(literals) == len(expressions) else []
