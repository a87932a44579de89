"""The interpreter of expressions: value instructions over registers of n lanes, up to the next control instruction.

The meaning of every operation stands here once. Null and error flags follow `docs/decisions/0003-errors-in-expressions.md`:
strict operations give null if an argument is null, else an error if one is; AND and OR absorb.
"""

import cython
from cython.cimports.keuka.kernel.functions import (
    apply_function,
    move_to_zone,
    parse_decimal,
    power_of_ten,
    rescale,
    write_number,
)
from cython.cimports.libc.math import ceil, fabs, floor, fmod
from cython.cimports.libc.string import memset, strlen


def canonical_double(bits):
    """The one bit pattern of equal doubles: no minus zero, one NaN."""
    x: cython.double = 0
    memcpy(cython.address(x), cython.address(bits), 8)
    if x == 0.0:
        return 0
    if isnan(x):
        return 0x7FF8000000000000
    return bits


def round_integer(value, digits, result):
    """Half away from zero at 10^-digits for negative digits; False if the result needs more than 64 bits."""
    digits = min(digits, cython.cast(int64_t, 0))
    if digits < -18:
        # 10^19 is above 2^63: everything is less than half of it, or rounds out of range.
        half: int64_t = 5000000000000000000
        result[0] = 0
        return digits < -19 or (value > -half and value < half)
    return rescale(value, digits, result) and not mul_overflows(result[0], power_of_ten(-digits), result)


def round_double(x, digits):
    """Half away from zero on the shortest decimal that reads back as x, as Spark rounds: round(0.285, 2) is 0.29."""
    text: cython.char[64]
    kept: int64_t = 0
    if isnan(x) or x - x != 0.0 or digits > 340:
        return x
    if digits < -340:
        return 0.0
    write_shortest(x, text)
    # What has more than 18 digits up to the wanted one has no others: a double has 17 at most.
    return unscaled(kept, digits) if parse_decimal(text, text + strlen(text), digits, cython.address(kept)) else x


def unscaled(value, scale):
    """The double next to value / 10^scale. Where both have a double of their own, one division rounds once; else it is read as text."""
    out: cython.char[40]
    size: int64_t
    divisor: cython.double = 1.0
    most: int64_t = 9007199254740992  # 2^53: up to there every integer is a double
    if -most <= value <= most and 0 <= scale <= 22:
        while scale > 0:
            divisor *= 10.0
            scale -= 1
        return cython.cast(cython.double, value) / divisor
    size = write_number(out, value)
    out[size] = 101  # e
    size += 1
    return read_double(out, size + write_number(out + size, -scale))


def in_set(frame, which, value):
    low: int64_t = frame.sets.rows[which].first
    end: int64_t = frame.sets.rows[which].end
    high: int64_t = end
    middle: int64_t
    while low < high:
        middle = (low + high) >> 1
        if frame.sets.values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low < end and frame.sets.values[low] == value


def evaluate(code, pc, frame, n, strings):
    return evaluate_lanes(code, pc, frame, n, CHUNK, strings)


def evaluate_one(code, pc, frame, strings):
    return evaluate_lanes(code, pc, frame, 1, 1, strings)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def evaluate_lanes(
    code: cython.pointer(cython.const[Instruction]),
    pc: cython.int,
    frame: cython.pointer(Frame),
    n: int64_t,
    stride: int64_t,
    strings: StringTable,
) -> cython.int:
    """The interpreter. The compiler makes two copies of it (setup.py forces this), and in the one with one lane no loop is left."""
    t: int64_t
    ins: cython.pointer(cython.const[Instruction])
    zone: cython.pointer(cython.const[SetRow])
    op: cython.int
    dv: cython.pointer(int64_t)
    av: cython.pointer(int64_t)
    bv: cython.pointer(int64_t)
    cv: cython.pointer(int64_t)
    dd: cython.pointer(cython.double)
    ad: cython.pointer(cython.double)
    bd: cython.pointer(cython.double)
    df: cython.pointer(uint8_t)
    af: cython.pointer(uint8_t)
    bf: cython.pointer(uint8_t)
    cf: cython.pointer(uint8_t)
    while True:
        ins = code + pc
        op = ins.op
        if op >= JUMP_UNLESS:
            return pc
        pc += 1
        dv = frame.values + ins.dst * stride
        df = frame.flags + ins.dst * stride
        if op <= LOAD_DUR:
            if op == LOAD_EVENT:
                memcpy(dv, frame.columns[ins.a].values + frame.row, n * 8)
                if frame.columns[ins.a].flags != cython.NULL:
                    memcpy(df, frame.columns[ins.a].flags + frame.row, n)
                else:
                    memset(df, 0, n)
            elif op == LOAD_SLOT:
                dv[0] = frame.slots[ins.a]
                df[0] = frame.slot_flags[ins.a]
            elif op == LOAD_CONST:
                for i in range(n):
                    dv[i] = frame.constants[ins.a]
                memset(df, 0, n)
            elif op == LOAD_NULL:
                memset(dv, 0, n * 8)
                memset(df, IS_NULL, n)
            elif op == LOAD_DUR:
                # Differences of ticks saturate: an event may span all of time.
                for i in range(n):
                    t = frame.starts[frame.row + i] if frame.slots == cython.NULL else frame.instance_start
                    if sub_overflows(frame.ends[frame.row + i], t, cython.address(t)) or add_overflows(t, 1, cython.address(t)):
                        t = 0x7FFFFFFFFFFFFFFF
                    dv[i] = t
                memset(df, 0, n)
            continue
        av = frame.values + ins.a * stride
        bv = frame.values + ins.b * stride
        cv = frame.values + ins.c * stride
        af = frame.flags + ins.a * stride
        bf = frame.flags + ins.b * stride
        cf = frame.flags + ins.c * stride
        dd = cython.cast(cython.pointer(cython.double), dv)
        ad = cython.cast(cython.pointer(cython.double), av)
        bd = cython.cast(cython.pointer(cython.double), bv)
        # The flags of strict operations; those with one argument first. The others see to their flags themselves.
        if op in (
            TO_DOUBLE, NEG_I, ABS_I, NEG_D, ABS_D, FLOOR_D, CEIL_D, NOT, LENGTH, LOWER, UPPER, IN_SET, IN_SET_D, MOVE, SCALE_UP, UNSCALE,
        ):  # fmt: skip
            for i in range(n):
                df[i] = af[i]
        elif op in (
            ADD_I, SUB_I, MUL_I, MOD_I, ADD_D, SUB_D, MUL_D, DIV_D, MOD_D, ROUND_D, ROUND_I, LIMIT,
            EQ_I, LT_I, LE_I, EQ_D, LT_D, LE_D, LT_S, LE_S, LIKE, CONCAT,
        ):  # fmt: skip
            for i in range(n):
                df[i] = strict(af[i], bf[i])
        if op == TO_DOUBLE:
            for i in range(n):
                dd[i] = cython.cast(cython.double, av[i])
        elif op == NEG_I:
            for i in range(n):
                if sub_overflows(0, av[i], cython.address(dv[i])) and df[i] == 0:
                    df[i] = IS_ERROR
        elif op == ABS_I:
            for i in range(n):
                if av[i] >= 0:
                    dv[i] = av[i]
                elif sub_overflows(0, av[i], cython.address(dv[i])) and df[i] == 0:
                    df[i] = IS_ERROR
        elif op == NEG_D:
            for i in range(n):
                dd[i] = -ad[i]
        elif op == ABS_D:
            for i in range(n):
                dd[i] = fabs(ad[i])
        elif op == FLOOR_D or op == CEIL_D:
            for i in range(n):
                dd[i] = floor(ad[i]) if op == FLOOR_D else ceil(ad[i])
                if -9223372036854775808.0 <= dd[i] < 9223372036854775808.0:
                    dv[i] = cython.cast(int64_t, dd[i])
                elif df[i] == 0:
                    df[i] = IS_ERROR
        elif op == NOT:
            for i in range(n):
                dv[i] = av[i] ^ 1
        elif op == NULL_TEST:
            for i in range(n):
                dv[i] = af[i] == IS_NULL
                df[i] = af[i] & IS_ERROR
        elif op == LENGTH:
            for i in range(n):
                if df[i] == 0:
                    dv[i] = strings.length(av[i])
        elif op == LOWER or op == UPPER:
            for i in range(n):
                if df[i] == 0:
                    dv[i] = strings.change_case(av[i], op == UPPER)
                    if dv[i] < 0:
                        return -1
        elif op == IN_SET:
            for i in range(n):
                dv[i] = in_set(frame, ins.b, av[i])
        elif op == IN_SET_D:
            for i in range(n):
                dv[i] = in_set(frame, ins.b, canonical_double(av[i]))
        elif op == LOCAL or op == INSTANT:
            zone = frame.sets.rows + ins.b
            move_to_zone(op == LOCAL, n, dv, df, av, af, frame.sets.values + zone.first, zone.end - zone.first)
        elif op == MOVE:
            for i in range(n):
                dv[i] = av[i]
        elif op == SCALE_UP:
            t = power_of_ten(ins.b)
            for i in range(n):
                dv[i] = scaled(av[i], t, ins.b > 18)
        elif op == UNSCALE:
            for i in range(n):
                dd[i] = unscaled(av[i], ins.b)
        elif op == FUNCTION:
            if not apply_function(ins.c, n, dv, df, av, af, bv, bf, strings):
                return -1
        elif op == AND or op == OR:
            # One side may decide: false for AND, true for OR. `t` is what the other side must be then.
            t = op == AND
            for i in range(n):
                if (af[i] == 0 and av[i] != t) or (bf[i] == 0 and bv[i] != t):
                    dv[i] = 1 - t
                    df[i] = 0
                else:
                    df[i] = strict(af[i], bf[i])
                    dv[i] = t
        elif op == COALESCE:
            for i in range(n):
                if af[i] == IS_NULL:
                    dv[i] = bv[i]
                    df[i] = bf[i]
                else:
                    dv[i] = av[i]
                    df[i] = af[i]
        elif op == SELECT:
            for i in range(n):
                if af[i] == IS_ERROR:
                    df[i] = IS_ERROR
                elif af[i] == 0 and av[i] != 0:
                    dv[i] = bv[i]
                    df[i] = bf[i]
                else:
                    dv[i] = cv[i]
                    df[i] = cf[i]
        elif op in (LEAST_I, LEAST_D, LEAST_S, GREATEST_I, GREATEST_D, GREATEST_S):
            # Nulls are skipped; an error on either side is an error.
            for i in range(n):
                if (af[i] | bf[i]) & IS_ERROR:
                    df[i] = IS_ERROR
                elif bf[i] == IS_NULL or (af[i] == 0 and prefers(op, av[i], bv[i], strings)):
                    dv[i] = av[i]
                    df[i] = af[i]
                else:
                    dv[i] = bv[i]
                    df[i] = bf[i]
        elif op == SUBSTRING:
            for i in range(n):
                df[i] = strict(strict(af[i], bf[i]), cf[i])
                if df[i] == 0:
                    dv[i] = strings.substring(av[i], bv[i], cv[i])
                    if dv[i] < 0:
                        return -1
        elif op == LIMIT:
            for i in range(n):
                if (av[i] > bv[i] or av[i] < -bv[i]) and df[i] == 0:
                    df[i] = IS_ERROR
                dv[i] = av[i]  # the last to be written: it may be the register of the limit
        elif op == ADD_I:
            for i in range(n):
                if add_overflows(av[i], bv[i], cython.address(dv[i])) and df[i] == 0:
                    df[i] = IS_ERROR
        elif op == SUB_I:
            for i in range(n):
                if sub_overflows(av[i], bv[i], cython.address(dv[i])) and df[i] == 0:
                    df[i] = IS_ERROR
        elif op == MUL_I:
            for i in range(n):
                if mul_overflows(av[i], bv[i], cython.address(dv[i])) and df[i] == 0:
                    df[i] = IS_ERROR
        elif op == MOD_I:
            for i in range(n):
                if bv[i] == 0 or bv[i] == -1:
                    # -2^63 % -1 traps in C; the remainder by -1 is 0.
                    df[i] = IS_NULL if bv[i] == 0 and df[i] == 0 else df[i]
                    dv[i] = 0
                else:
                    dv[i] = av[i] % bv[i]
        elif op == ADD_D:
            for i in range(n):
                dd[i] = ad[i] + bd[i]
        elif op == SUB_D:
            for i in range(n):
                dd[i] = ad[i] - bd[i]
        elif op == MUL_D:
            for i in range(n):
                dd[i] = ad[i] * bd[i]
        elif op == DIV_D:
            for i in range(n):
                if bd[i] == 0.0 and df[i] == 0:
                    df[i] = IS_NULL
                dd[i] = ad[i] / bd[i]
        elif op == MOD_D:
            for i in range(n):
                if bd[i] == 0.0 and df[i] == 0:
                    df[i] = IS_NULL
                dd[i] = fmod(ad[i], bd[i])
        elif op == ROUND_D:
            for i in range(n):
                if df[i] == 0:
                    dd[i] = round_double(ad[i], bv[i])
        elif op == ROUND_I:
            for i in range(n):
                if df[i] == 0 and not round_integer(av[i], bv[i], cython.address(t)):
                    df[i] = IS_ERROR
                if df[i] == 0:
                    dv[i] = t
        elif op == EQ_I:
            for i in range(n):
                dv[i] = av[i] == bv[i]
        elif op == LT_I:
            for i in range(n):
                dv[i] = av[i] < bv[i]
        elif op == LE_I:
            for i in range(n):
                dv[i] = av[i] <= bv[i]
        elif op == EQ_D:
            for i in range(n):
                dv[i] = ad[i] == bd[i] or (isnan(ad[i]) and isnan(bd[i]))
        elif op == LT_D:
            for i in range(n):
                dv[i] = less(ad[i], bd[i])
        elif op == LE_D:
            for i in range(n):
                dv[i] = not less(bd[i], ad[i])
        elif op == LT_S or op == LE_S:
            for i in range(n):
                if df[i] == 0:
                    t = strings.compare(av[i], bv[i])
                    dv[i] = t < 0 or (t == 0 and op == LE_S)
        elif op == LIKE:
            for i in range(n):
                if df[i] == 0:
                    dv[i] = strings.like(av[i], bv[i])
        elif op == CONCAT:
            for i in range(n):
                if df[i] == 0:
                    dv[i] = strings.concat(av[i], bv[i])
                    if dv[i] < 0:
                        return -1
