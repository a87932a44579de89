"""Functions over registers of n lanes: parts of times, conversions, mathematics, regular expressions. `bytecode.py` calls them.

`algebra/values.py` says what each function means; the laws compare both.
"""

import cython
import pyarrow as pa
import pyarrow.compute as pc
from cython.cimports.cpython.exc import PyErr_SetInterrupt
from cython.cimports.keuka.kernel.bytecode import IS_NULL, add_overflows, mul_overflows, sub_overflows, write_shortest
from cython.cimports.keuka.kernel.strings import Verdicts
from cython.cimports.libc.math import exp, isnan, log, pow, sqrt
from cython.cimports.libc.string import memcmp, memcpy, strlen

# Functions that add texts to the string table, or write what is known of texts there: several threads cannot.
CHANGE_STRINGS = (
    *(Function.TRIM, Function.REGEXP_LIKE, Function.WRITE_INTEGER, Function.WRITE_BOOLEAN),
    *(Function.WRITE_TIME, Function.WRITE_DATE, Function.WRITE_DECIMAL),
)

_SECOND = cython.declare(int64_t, 1000000)
_MINUTE = cython.declare(int64_t, 60000000)
_HOUR = cython.declare(int64_t, 3600000000)
_DAY = cython.declare(int64_t, 86400000000)
_MOST_DAYS = cython.declare(int64_t, 106751991)  # of a date since 1970, so that its midnight fits 64 bits
_MOST_DECIMAL = cython.declare(int64_t, 999999999999999999)
_MOST_SCALE = cython.declare(int64_t, 38)
# From the year 2500 on the rules for summer time repeat themselves after 400 years; both in seconds.
_LAST_OFFSET = cython.declare(int64_t, 16725225600)
_CYCLE = cython.declare(int64_t, 12622780800)


def apply_function(function, n, dv, df, av, af, bv, bf, strings):
    has_two: cython.bint = function in (TRUNCATE_TIME, TRUNCATE_MONTHS, MOVE_TIME, POW, REGEXP_LIKE, WRITE_DECIMAL, PARSE_DECIMAL)
    has_two = has_two or function >= RESCALE
    if function == REGEXP_LIKE and not ask_patterns(n, av, af, bv, bf, strings):
        return False
    for i in range(n):
        flag = af[i] | bf[i] if has_two else af[i]
        if flag != 0:
            df[i] = 1 if flag & 1 else flag
            continue
        df[i] = 0
        if function <= MOVE_TIME:
            time_function(function, av[i], bv[i] if has_two else 0, dv + i, df + i)
        elif SQRT <= function <= POW:
            mathematics(function, av[i], bv[i] if has_two else 0, dv + i, df + i)
        elif function <= REGEXP_LIKE or WRITE_INTEGER <= function <= WRITE_DECIMAL:
            dv[i] = text_function(function, av[i], bv[i] if has_two else 0, strings)
            if dv[i] < 0:
                return False
        elif function <= FROM_SECONDS or function >= DATE_OF_TIME:
            number_conversion(function, av[i], bv[i] if has_two else 0, dv + i, df + i)
        else:
            parse(function, av[i], bv[i] if has_two else 0, dv + i, df + i, strings)
    return True


# -- times ---------------------------------------------------------------------------------------------------------------


def divide_down(a, b):
    """The quotient rounded down; b is positive."""
    return a // b - (1 if a % b < 0 else 0)


def rest_above(a, b):
    """What is left after `divide_down`. Multiplying back could leave 64 bits for the earliest times."""
    rest: int64_t = a % b
    return rest + b if rest < 0 else rest


def civil(days, year, month, day):
    """Days since 1970 as a date of the Gregorian calendar (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms")."""
    days += 719468  # since 0000-03-01
    era: int64_t = divide_down(days, 146097)
    of_era: int64_t = days - era * 146097
    year_of_era: int64_t = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year: int64_t = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month: int64_t = (5 * of_year + 2) // 153
    day[0] = of_year - (153 * march_month + 2) // 5 + 1
    month[0] = march_month + 3 if march_month < 10 else march_month - 9
    year[0] = year_of_era + era * 400 + (1 if month[0] <= 2 else 0)


def days_of(year, month, day):
    """The opposite of `civil`."""
    year -= 1 if month <= 2 else 0
    era: int64_t = divide_down(year, 400)
    year_of_era: int64_t = year - era * 400
    of_year: int64_t = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + of_year - 719468


def time_function(function, time, unit, result, flag):
    year: int64_t = 0
    month: int64_t = 0
    day: int64_t = 0
    days: int64_t = divide_down(time, _DAY)
    of_day: int64_t = rest_above(time, _DAY)
    if function == HOUR:
        result[0] = of_day // _HOUR
    elif function == MINUTE:
        result[0] = of_day // _MINUTE % 60
    elif function == SECOND:
        result[0] = of_day // _SECOND % 60
    elif function == DAY_OF_WEEK:
        result[0] = days + 4 - 7 * divide_down(days + 4, 7) + 1  # 1970-01-01 was a Thursday
    elif function == MOVE_TIME:
        if sub_overflows(time, unit, result):
            flag[0] = IS_NULL
    elif function == TRUNCATE_TIME:
        time_of(divide_down(time, unit if unit > 0 else 1), unit, result, flag)
    elif function == TRUNCATE_WEEK:
        time_of(days - (days + 3 - 7 * divide_down(days + 3, 7)), _DAY, result, flag)
    else:
        civil(days, cython.address(year), cython.address(month), cython.address(day))
        if function == YEAR:
            result[0] = year
        elif function == MONTH:
            result[0] = month
        elif function == DAY:
            result[0] = day
        else:
            month -= (month - 1) % unit if 0 < unit <= 12 else 0
            time_of(days_of(year, month, 1), _DAY, result, flag)


def time_of(count, unit, result, flag):
    """`count` units; null outside 64 bits."""
    if mul_overflows(count, unit, result):
        flag[0] = IS_NULL


def offset_at(time, offsets, n_offsets):
    """By how much the clocks of the zone are ahead of UTC, in microseconds."""
    seconds: int64_t = divide_down(time, _SECOND)
    if seconds >= _LAST_OFFSET:
        seconds -= (seconds - _LAST_OFFSET + _CYCLE) // _CYCLE * _CYCLE
    low: int64_t = 0
    high: int64_t = n_offsets
    if low == high:
        return 0
    # The last offset that begins no later; the first one holds for all times before it.
    while high - low > 1:
        middle = (low + high) >> 1
        if offsets[middle] >> ZONE_BITS <= seconds:
            low = middle
        else:
            high = middle
    return ((offsets[low] & (ZONE_STEP - 1)) - (ZONE_STEP >> 1)) * _SECOND


def move_to_zone(to_local, n, dv, df, av, af, offsets, n_offsets):
    for i in range(n):
        df[i] = af[i]
        if df[i] != 0:
            continue
        local = av[i]
        if to_local:
            if add_overflows(local, offset_at(local, offsets, n_offsets), dv + i):
                df[i] = IS_NULL
            continue
        before = offset_at(saturated(local, -_DAY), offsets, n_offsets)
        after = offset_at(saturated(local, _DAY), offsets, n_offsets)
        if offset_at(saturated(local, -before), offsets, n_offsets) != before:
            if offset_at(saturated(local, -after), offsets, n_offsets) == after:
                before = after
        if sub_overflows(local, before, dv + i):
            df[i] = IS_NULL


def saturated(time, more):
    total: int64_t = 0
    if add_overflows(time, more, cython.address(total)):
        return time
    return total


# -- numbers -------------------------------------------------------------------------------------------------------------


def mathematics(function, a, b, result, flag):
    x: cython.double = 0
    y: cython.double = 0
    memcpy(cython.address(x), cython.address(a), 8)
    memcpy(cython.address(y), cython.address(b), 8)
    if function == SQRT:
        x = sqrt(x)
    elif function == EXP:
        x = exp(x)
    elif function == LN:
        if x <= 0.0:
            flag[0] = IS_NULL
        x = log(x)
    elif isnan(y) or ((x == 1.0 or x == -1.0) and y - y != 0.0):
        # Here C says 1 and Java, whose meaning Spark's is, NaN.
        x = y - y
    else:
        x = pow(x, y)
    memcpy(result, cython.address(x), 8)


def number_conversion(function, a, b, result, flag):
    x: cython.double = 0
    result[0] = a
    if function == TO_INTEGER:
        memcpy(cython.address(x), cython.address(a), 8)
        if -9223372036854775808.0 <= x < 9223372036854775808.0:
            result[0] = cython.cast(int64_t, x)
        else:
            flag[0] = IS_NULL
    elif function == TO_INT:
        if not -2147483648 <= a <= 2147483647:
            flag[0] = IS_NULL
    elif function == SECONDS:
        result[0] = divide_down(a, _SECOND)
    elif function == FROM_SECONDS:
        time_of(a, _SECOND, result, flag)
    elif function == DATE_OF_TIME:
        result[0] = divide_down(a, _DAY)
        if result[0] < -_MOST_DAYS:
            flag[0] = IS_NULL
    elif function == RESCALE:
        if not rescale(a, b, result):
            flag[0] = IS_NULL
    elif function == WITHOUT_FRACTION:
        result[0] = a // power_of_ten(b) if b <= 18 else 0
    elif function == DOUBLE_TO_DECIMAL:
        memcpy(cython.address(x), cython.address(a), 8)
        if not decimal_of_double(x, b, result):
            flag[0] = IS_NULL
    elif a > b or ~a >= b:  # ~a is -a - 1, which fits always
        flag[0] = IS_NULL


def power_of_ten(exponent):
    """10^18 for all that are larger."""
    power: int64_t = 1
    for _ in range(min(exponent, 18)):
        power *= 10
    return power


def rescale(value, digits, result):
    """With so many more digits behind the point, or fewer, half up; False outside 64 bits. The value has at most 18 digits to lose."""
    if digits >= 0:
        return (value == 0 or digits <= 18) and not mul_overflows(value, power_of_ten(digits), result)
    result[0] = 0
    if digits >= -18:
        power = power_of_ten(-digits)
        rest = value % power
        result[0] = value // power
        if rest >= power - rest:
            result[0] += 1
        elif -rest >= power + rest:
            result[0] -= 1
    return True


def scale_in_range(scale):
    """That of a decimal; tables may say anything."""
    return max(cython.cast(int64_t, 0), min(scale, _MOST_SCALE))


def decimal_of_double(x, scale, result):
    """Half up on its shortest digits, as Spark does; False for what is not finite and for more than 18 digits."""
    text: cython.char[64]
    write_shortest(x, text)
    return parse_decimal(text, text + strlen(text), scale_in_range(scale), result)


# -- texts ---------------------------------------------------------------------------------------------------------------


def text_function(function, a, b, strings):
    """The code of the text; -1 when memory is out. What REGEXP_LIKE says is known already."""
    buffer: cython.char[64]
    if function == REGEXP_LIKE:
        known = strings.verdicts_of(b)
        return -1 if known == cython.NULL else known.known[a] == 2
    if function == TRIM:
        text: cython.pointer(cython.char) = strings.blob + strings.entries[a].offset
        whole: int64_t = strings.entries[a].length
        first: int64_t = 0
        size = whole
        while size > 0 and text[size - 1] == 32:
            size -= 1
        while first < size and text[first] == 32:
            first += 1
        return strings.add(text + first, size - first, whole - first)
    if function == WRITE_BOOLEAN:
        if a:
            memcpy(buffer, b"true", 4)
        else:
            memcpy(buffer, b"false", 5)
        return strings.add(buffer, 4 if a else 5, 64)
    if function == WRITE_INTEGER:
        size = write_number(buffer, a)
    elif function == WRITE_TIME:
        size = write_time(buffer, a)
    elif function == WRITE_DATE:
        size = write_date(buffer, max(-_MOST_DAYS, min(a, _MOST_DAYS)))
    else:
        size = write_decimal(buffer, a, b)
    return strings.add(buffer, size, 64)


def write_number(out, value):
    """Its digits; how many bytes there are."""
    digits: cython.char[24]
    n: int64_t = 0
    size: int64_t = 0
    rest: int64_t = value
    while True:
        # Remainders of negative numbers are negative: the least of all has no opposite.
        digits[n] = cython.cast(cython.char, 48 + (rest % 10 if rest > 0 else -(rest % 10)))
        n += 1
        rest = rest // 10
        if rest == 0:
            break
    if value < 0:
        out[0] = 45
        size = 1
    while n > 0:
        n -= 1
        out[size] = digits[n]
        size += 1
    return size


def write_padded(out, value, width):
    for i in range(width):
        out[width - 1 - i] = cython.cast(cython.char, 48 + value % 10)
        value = value // 10
    return width


def write_date(out, days):
    """Like 2024-03-01; years beyond four digits have a sign."""
    year: int64_t = 0
    month: int64_t = 0
    day: int64_t = 0
    size: int64_t = 0
    civil(days, cython.address(year), cython.address(month), cython.address(day))
    if year < 0 or year > 9999:
        out[0] = 45 if year < 0 else 43
        year = -year if year < 0 else year
        size = 1
    size += write_padded(out + size, year, 4) if year <= 9999 else write_number(out + size, year)
    out[size] = 45
    write_padded(out + size + 1, month, 2)
    out[size + 3] = 45
    write_padded(out + size + 4, day, 2)
    return size + 6


def write_decimal(out, value, scale):
    """All digits behind the point, and at least one before it."""
    digits: cython.char[64]
    scale = scale_in_range(scale)
    n: int64_t = write_number(digits, value)
    first: int64_t = 1 if value < 0 else 0
    size: int64_t = first
    if value < 0:
        out[0] = 45
    for i in range(max(scale + 1, n - first), 0, -1):
        out[size] = digits[n - i] if i <= n - first else 48
        size += 1
        if i == scale + 1 and scale > 0:
            out[size] = 46
            size += 1
    return size


def write_time(out, time):
    """Like 2024-03-01 09:10:30.25: no fraction where there is none."""
    rest: int64_t = rest_above(time, _DAY)
    size: int64_t = write_date(out, divide_down(time, _DAY))
    width: int64_t = 6
    out[size] = 32
    write_padded(out + size + 1, rest // _HOUR, 2)
    out[size + 3] = 58
    write_padded(out + size + 4, rest // _MINUTE % 60, 2)
    out[size + 6] = 58
    write_padded(out + size + 7, rest // _SECOND % 60, 2)
    size += 9
    rest = rest % _SECOND
    if rest == 0:
        return size
    while rest % 10 == 0:
        rest = rest // 10
        width -= 1
    out[size] = 46
    return size + 1 + write_padded(out + size + 1, rest, width)


# -- texts as values -----------------------------------------------------------------------------------------------------


def is_blank(byte):
    """ASCII's blanks and control characters, which conversions leave out at both ends."""
    return 0 <= byte <= 32 or byte == 127


def parse(function, code, scale, result, flag, strings):
    text: cython.pointer(cython.const[cython.char]) = strings.blob + strings.entries[code].offset
    end: cython.pointer(cython.const[cython.char]) = text + strings.entries[code].length
    x: cython.double = 0
    found: cython.bint
    # Java leaves DEL where it is when it reads a double or a decimal.
    by_java: cython.bint = function == PARSE_DOUBLE or function == PARSE_DECIMAL
    while end > text and is_blank((end - 1)[0]) and not (by_java and (end - 1)[0] == 127):
        end -= 1
    while text < end and is_blank(text[0]) and not (by_java and text[0] == 127):
        text += 1
    if function == PARSE_INTEGER:
        found = parse_integer(text, end, result)
    elif function == PARSE_DOUBLE:
        found = parse_double(text, end, cython.address(x))
        memcpy(result, cython.address(x), 8)
    elif function == PARSE_BOOLEAN:
        result[0] = is_one_of(text, end, b" t true y yes 1 ")
        found = result[0] or is_one_of(text, end, b" f false n no 0 ")
    elif function == PARSE_TIME:
        found = parse_time(text, end, result)
    elif function == PARSE_DATE:
        found = parse_date(text, end, result)
    else:
        found = parse_decimal(text, end, scale_in_range(scale), result)
    if not found:
        flag[0] = IS_NULL


def is_one_of(text, end, words):
    """Is the text, in lower case, one of the words, each with a blank on both sides?"""
    folded: cython.char[16]
    size: int64_t = end - text
    if size < 1 or size > 12:
        return False
    for i in range(size):
        folded[i + 1] = text[i] + 32 if 65 <= text[i] <= 90 else text[i]
        if text[i] == 32:
            return False
    folded[0] = folded[size + 1] = 32
    for i in range(cython.cast(int64_t, strlen(words)) - size - 1):
        if memcmp(words + i, folded, size + 2) == 0:
            return True
    return False


def parse_integer(text, end, result):
    negative: cython.bint = take_sign(cython.address(text), end)
    value: int64_t = 0
    if text == end:
        return False
    while text < end:
        # Towards the negative end, where there is one number more.
        if not 48 <= text[0] <= 57 or mul_overflows(value, 10, cython.address(value)):
            return False
        if sub_overflows(value, text[0] - 48, cython.address(value)):
            return False
        text += 1
    result[0] = value
    return negative or not sub_overflows(0, value, result)


def parse_double(text, end, result):
    """As Java reads a double, but no hexadecimal ones; and Spark's words for what is not finite."""
    infinity: cython.double = 1e308 * 10.0
    signed: cython.pointer(cython.const[cython.char]) = text
    negative: cython.bint = take_sign(cython.address(signed), end)
    if is_one_of(text, end, b" inf +inf infinity +infinity ") or is_one_of(text, end, b" -inf -infinity "):
        result[0] = -infinity if negative else infinity
        return True
    if is_one_of(text, end, b" nan ") or is_text(text, end, b"+NaN") or is_text(text, end, b"-NaN"):
        result[0] = infinity - infinity
        return True
    if signed < end and ((end - 1)[0] | 32 == 100 or (end - 1)[0] | 32 == 102):  # Java's suffixes d and f
        end -= 1
    if signed == end or not (48 <= signed[0] <= 57 or signed[0] == 46):
        return False
    kind: cython.int = parse_number(signed, end, result)
    if kind == 1:
        result[0] = infinity if is_large(signed, end) else 0.0
    if negative:
        result[0] = -result[0]
    return kind != 2


def is_text(text, end, word):
    """Is it this text of four bytes?"""
    return end - text == 4 and memcmp(text, word, 4) == 0


def is_large(text, end):
    """Is a number beyond the range of doubles too large, not too small? Its first digit and its exponent decide."""
    power: int64_t = 0
    exponent: int64_t = 0
    negative: cython.bint = False
    in_fraction: cython.bint = False
    has_begun: cython.bint = False
    while text < end and text[0] | 32 != 101:
        if text[0] == 46:
            in_fraction = True
        elif has_begun or text[0] != 48:
            has_begun = True
            power += 0 if in_fraction else 1
        elif in_fraction:
            power -= 1
        text += 1
    if text < end:
        text += 1
        negative = take_sign(cython.address(text), end)
        while text < end:
            if exponent < 1000000000:
                exponent = 10 * exponent + text[0] - 48
            text += 1
    return power - exponent > 0 if negative else power + exponent > 0


def digits(text, end, fewest, most, value):
    """Read the digits at `text`, which moves behind them: from `fewest` to `most`, and no further digit."""
    n: int64_t = 0
    value[0] = 0
    while text[0] < end and 48 <= text[0][0] <= 57:
        n += 1
        if n > most:
            return False
        value[0] = 10 * value[0] + text[0][0] - 48
        text[0] += 1
    return n >= fewest


def take(text, end, byte):
    """Is this the next character? Then move behind it."""
    if text[0] < end and text[0][0] == byte:
        text[0] += 1
        return True
    return False


def take_sign(text, end):
    """Move behind a sign; is it a minus?"""
    negative: cython.bint = take(text, end, 45)
    if not negative:
        take(text, end, 43)
    return negative


def parse_time(text, end, result):
    """Spark's forms from a year to 2024-03-01T09:10:30.25+02:00; without an offset UTC. A time without a date is none."""
    at: cython.pointer(cython.pointer(cython.const[cython.char])) = cython.address(text)
    fields: int64_t[7]
    day: int64_t = 0
    count: int64_t = 0
    offset: int64_t = 0
    negative: cython.bint = take_sign(at, end)
    for i in range(7):
        fields[i] = 1 if i < 3 else 0
    if not digits(at, end, 4, 6, cython.address(fields[0])):
        return False
    for i in range(1, 6):
        if text == end:
            break
        if not take(at, end, 45 if i < 3 else 58 if i > 3 else 32) and not (i == 3 and take(at, end, 84)):
            break
        if not digits(at, end, 1, 2, cython.address(fields[i])):
            return False
        count = i
    if text < end and count < 5:
        return False
    if take(at, end, 46):
        # Digits behind the sixth are cut off.
        i = 0
        while text < end and 48 <= text[0] <= 57:
            if i < 6:
                fields[6] = 10 * fields[6] + text[0] - 48
                i += 1
            text += 1
        while i < 6:
            fields[6] *= 10
            i += 1
    if text < end and not parse_offset(text, end, cython.address(offset)):
        return False
    if negative:
        fields[0] = -fields[0]
    if fields[3] > 23 or fields[4] > 59 or fields[5] > 59 or not day_of(fields[0], fields[1], fields[2], cython.address(day)):
        return False
    if mul_overflows(day, 86400, cython.address(day)):
        return False
    day += 3600 * fields[3] + 60 * fields[4] + fields[5] - offset
    return not mul_overflows(day, _SECOND, result) and not add_overflows(result[0], fields[6], result)


def parse_date(text, end, result):
    """Spark's forms from a year to 2024-03-01; behind a day may follow anything that a blank or a T begins."""
    at: cython.pointer(cython.pointer(cython.const[cython.char])) = cython.address(text)
    fields: int64_t[3]
    negative: cython.bint = take_sign(at, end)
    fields[1] = fields[2] = 1
    if not digits(at, end, 4, 7, cython.address(fields[0])):
        return False
    for i in range(1, 3):
        if text < end and not (take(at, end, 45) and digits(at, end, 1, 2, cython.address(fields[i]))):
            return False
    if text < end and text[0] != 32 and text[0] != 84:
        return False
    return day_of(-fields[0] if negative else fields[0], fields[1], fields[2], result) and -_MOST_DAYS <= result[0] <= _MOST_DAYS


def day_of(year, month, day, result):
    """Days since 1970; False if the calendar has no such day."""
    if not 1 <= month <= 12 or day < 1:
        return False
    result[0] = days_of(year, month, day)
    # No later than the last day before the next month.
    return result[0] < days_of(year + (1 if month == 12 else 0), month % 12 + 1, 1)


def parse_decimal(text, end, scale, result):
    """As Java reads a decimal, of ASCII digits alone, half up at the scale; False if it is none or has more than 18 digits there."""
    negative: cython.bint = take_sign(cython.address(text), end)
    stop: cython.pointer(cython.const[cython.char]) = text
    n_digits: int64_t = 0
    n_fraction: int64_t = 0
    in_fraction: cython.bint = False
    exponent: int64_t = 0
    while stop < end and (48 <= stop[0] <= 57 or (stop[0] == 46 and not in_fraction)):
        if stop[0] == 46:
            in_fraction = True
        else:
            n_digits += 1
            n_fraction += 1 if in_fraction else 0
        stop += 1
    if n_digits == 0 or (stop < end and not parse_exponent(stop, end, cython.address(exponent))):
        return False
    # Java has 32 bits for the exponent, and counts the digits behind the point in as many.
    if exponent > 2147483647 or n_fraction - exponent > 2147483647:
        return False
    # Where a digit stands at the scale: the last one that is kept at 0, the one that decides about rounding at -1.
    place: int64_t = n_digits - 1 - n_fraction + exponent + scale
    value: int64_t = 0
    while text < stop and place >= -1:
        if text[0] != 46:
            if place == -1:
                value += 1 if text[0] >= 53 else 0
            elif value > _MOST_DECIMAL // 10:
                return False
            else:
                value = 10 * value + text[0] - 48
            place -= 1
        text += 1
    while value != 0 and place >= 0:
        if value > _MOST_DECIMAL // 10:
            return False
        value *= 10
        place -= 1
    if value > _MOST_DECIMAL:
        return False
    result[0] = -value if negative else value
    return True


def parse_exponent(text, end, exponent):
    """Up to ten digits behind e, and zeros before them."""
    at: cython.pointer(cython.pointer(cython.const[cython.char])) = cython.address(text)
    if not take(at, end, 101) and not take(at, end, 69):
        return False
    negative: cython.bint = take_sign(at, end)
    if text == end:
        return False
    while end - text > 1 and text[0] == 48:
        text += 1
    if not digits(at, end, 1, 10, exponent) or text != end:
        return False
    if negative:
        exponent[0] = -exponent[0]
    return True


def parse_offset(text, end, offset):
    """Z, or an offset in seconds: +2, +02, +0200, +02:00, up to 18 hours. Blanks may stand before it."""
    at: cython.pointer(cython.pointer(cython.const[cython.char])) = cython.address(text)
    hours: int64_t = 0
    minutes: int64_t = 0
    while text < end and is_blank(text[0]):
        text += 1
    if end - text == 1 and text[0] == 90:
        return True
    negative: cython.bint = take(at, end, 45)
    if not negative and not take(at, end, 43):
        return False
    if end - text == 4 and digits(at, end, 4, 4, cython.address(hours)):
        minutes = hours % 100
        hours = hours // 100
    elif not digits(at, end, 1, 2, cython.address(hours)):
        return False
    elif take(at, end, 58) and not digits(at, end, 1, 2, cython.address(minutes)):
        return False
    if text != end or minutes > 59 or 60 * hours + minutes > 1080:
        return False
    offset[0] = 3600 * hours + 60 * minutes
    if negative:
        offset[0] = -offset[0]
    return True


# -- regular expressions -------------------------------------------------------------------------------------------------


def ask_patterns(n, av, af, bv, bf, strings):
    """See to it that the patterns' verdicts on the texts are known: all unknown ones of the lanes in one call of Arrow, each text once."""
    done: cython.bint = True
    for i in range(n):
        if af[i] | bf[i] == 0:
            known = strings.verdicts_of(bv[i])
            if known == cython.NULL:
                return False
            done = done and known.known[av[i]] != 0
    if done:
        return True
    with cython.gil:
        unknown: dict = {}
        for i in range(n):
            if af[i] | bf[i] == 0 and strings.verdicts_of(bv[i]).known[av[i]] == 0:
                unknown.setdefault(bv[i], set()).add(av[i])
        interrupted: bool = False
        while unknown:
            try:
                for pattern in list(unknown):
                    record(strings, pattern, sorted(unknown[pattern]))
                    del unknown[pattern]
            except KeyboardInterrupt:
                interrupted = True  # the kernel looks for signals itself, where it can stop
            except Exception:  # of memory: a query whose pattern is no regular expression is refused before it runs
                return False
        if interrupted:
            PyErr_SetInterrupt()
    return True


def record(strings: StringTable, pattern: int, codes: list) -> None:
    """Note in which of these texts the pattern (RE2) matches a part."""
    texts = pa.array([strings.decoded(code) for code in codes], pa.large_string())
    matched: list = pc.match_substring_regex(texts, strings.decoded(pattern)).to_pylist()
    known: cython.pointer(Verdicts) = strings.verdicts_of(pattern)
    code: int64_t
    for code, does_match in zip(codes, matched, strict=True):
        known.known[code] = 2 if does_match else 1
