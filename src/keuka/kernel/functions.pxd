# The functions of the expression language that have an instruction in common (FUNCTION in bytecode.pxd): time, conversions,
# mathematics, regular expressions. All are strict: null if an argument is null, else an error if one is an error.
from libc.stdint cimport int64_t, uint8_t

from keuka.kernel.strings cimport StringTable

cdef extern from *:
    """
    #include <charconv>
    // The whole text as a double: 0 if it is a number, 1 if it is beyond the range of doubles, 2 if it is none.
    static inline int keuka_parse(const char* text, const char* end, double* x) {
        std::from_chars_result found = std::from_chars(text, end, *x);
        if (found.ptr != end) return 2;
        return found.ec == std::errc() ? 0 : found.ec == std::errc::result_out_of_range ? 1 : 2;
    }
    """
    int parse_number "keuka_parse"(const char* text, const char* end, double* x) noexcept nogil

# Times are microseconds since 1970; the parts of a time are those of UTC, LOCAL and INSTANT move times between UTC and a zone.
cpdef enum Function:
    YEAR = 0
    MONTH = 1
    DAY = 2
    HOUR = 3
    MINUTE = 4
    SECOND = 5
    DAY_OF_WEEK = 6       # 1 is Sunday
    TRUNCATE_TIME = 7     # b: the unit in microseconds
    TRUNCATE_WEEK = 8     # to Monday
    TRUNCATE_MONTHS = 9   # b: the unit in months
    MOVE_TIME = 10        # a - b; null outside 64 bits
    TRIM = 11             # blanks at both ends
    REGEXP_LIKE = 12      # b: pattern
    SQRT = 13
    LN = 14
    EXP = 15
    POW = 16
    TO_INTEGER = 17       # a double without its fraction; null outside 64 bits
    TO_INT = 18           # null outside 32 bits
    SECONDS = 19          # of a time, rounded down
    FROM_SECONDS = 20     # null outside 64 bits
    PARSE_INTEGER = 21    # text that is none is null, here and in the next three
    PARSE_DOUBLE = 22
    PARSE_BOOLEAN = 23
    PARSE_TIME = 24
    WRITE_INTEGER = 25
    WRITE_BOOLEAN = 26
    WRITE_TIME = 27
    WRITE_DATE = 28
    WRITE_DECIMAL = 29    # b: its scale
    PARSE_DATE = 30       # text that is none is null, here and in the next one
    PARSE_DECIMAL = 31    # b: the scale of the result
    DATE_OF_TIME = 32     # null if its midnight is outside 64 bits
    RESCALE = 33          # times 10 to the power of b, half up; null outside 64 bits
    WITHOUT_FRACTION = 34 # of a decimal of the scale b
    DOUBLE_TO_DECIMAL = 35  # b: the scale of the result; half up on the shortest digits of the double, null beyond 18 digits
    WITHIN = 36           # a; null above b or below its opposite

# Over n lanes, from UTC to a zone or back. `offsets` are those of the zone in the order of time: the second
# since 1970 from which on it has one, times ZONE_STEP, plus the offset in seconds plus ZONE_STEP / 2.
cpdef enum:
    ZONE_BITS = 18
    ZONE_STEP = 262144

cdef void move_to_zone(
    bint to_local, int64_t n, int64_t* dv, uint8_t* df, const int64_t* av, const uint8_t* af, const int64_t* offsets, int64_t n_offsets
) noexcept nogil

cdef int64_t power_of_ten(int64_t exponent) noexcept nogil

# Over n lanes; False when memory is out. The result may stand where an argument stood.
cdef bint apply_function(
    int function, int64_t n, int64_t* dv, uint8_t* df, const int64_t* av, const uint8_t* af, const int64_t* bv, const uint8_t* bf,
    StringTable strings
) noexcept nogil
cdef void civil(int64_t days, int64_t* year, int64_t* month, int64_t* day) noexcept nogil
cdef int64_t days_of(int64_t year, int64_t month, int64_t day) noexcept nogil
cdef void time_function(int function, int64_t time, int64_t unit, int64_t* result, uint8_t* flag) noexcept nogil
cdef int64_t offset_at(int64_t time, const int64_t* offsets, int64_t n_offsets) noexcept nogil
cdef void mathematics(int function, int64_t a, int64_t b, int64_t* result, uint8_t* flag) noexcept nogil
cdef void number_conversion(int function, int64_t a, int64_t b, int64_t* result, uint8_t* flag) noexcept nogil
cdef bint rescale(int64_t value, int64_t digits, int64_t* result) noexcept nogil
cdef int64_t scale_in_range(int64_t scale) noexcept nogil
cdef bint decimal_of_double(double x, int64_t scale, int64_t* result) noexcept nogil
cdef int64_t text_function(int function, int64_t a, int64_t b, StringTable strings) noexcept nogil
cdef int64_t write_number(char* out, int64_t value) noexcept nogil
cdef int64_t write_padded(char* out, int64_t value, int64_t width) noexcept nogil
cdef int64_t write_date(char* out, int64_t days) noexcept nogil
cdef int64_t write_decimal(char* out, int64_t value, int64_t scale) noexcept nogil
cdef int64_t write_time(char* out, int64_t time) noexcept nogil
cdef void parse(int function, int64_t code, int64_t scale, int64_t* result, uint8_t* flag, StringTable strings) noexcept nogil
cdef bint is_one_of(const char* text, const char* end, const char* words) noexcept nogil
cdef bint parse_integer(const char* text, const char* end, int64_t* result) noexcept nogil
cdef bint parse_double(const char* text, const char* end, double* result) noexcept nogil
cdef bint is_large(const char* text, const char* end) noexcept nogil
cdef bint digits(const char** text, const char* end, int64_t fewest, int64_t most, int64_t* value) noexcept nogil
cdef bint take_sign(const char** text, const char* end) noexcept nogil
cdef bint parse_time(const char* text, const char* end, int64_t* result) noexcept nogil
cdef bint parse_date(const char* text, const char* end, int64_t* result) noexcept nogil
cdef bint day_of(int64_t year, int64_t month, int64_t day, int64_t* result) noexcept nogil
cdef bint parse_decimal(const char* text, const char* end, int64_t scale, int64_t* result) noexcept nogil
cdef bint parse_exponent(const char* text, const char* end, int64_t* exponent) noexcept nogil
cdef bint parse_offset(const char* text, const char* end, int64_t* offset) noexcept nogil
cdef bint ask_patterns(
    int64_t n, const int64_t* av, const uint8_t* af, const int64_t* bv, const uint8_t* bf, StringTable strings
) noexcept nogil
cdef int64_t divide_down(int64_t a, int64_t b) noexcept nogil
cdef int64_t rest_above(int64_t a, int64_t b) noexcept nogil
cdef void time_of(int64_t count, int64_t unit, int64_t* result, uint8_t* flag) noexcept nogil
cdef int64_t saturated(int64_t time, int64_t more) noexcept nogil
cdef bint is_blank(char byte) noexcept nogil
cdef bint is_text(const char* text, const char* end, const char* word) noexcept nogil
cdef bint take(const char** text, const char* end, char byte) noexcept nogil
