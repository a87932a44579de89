# The register machine of expressions. One interpreter serves both uses: whole columns (n lanes of a batch) and one
# (instance, event) pair (one lane), so that an operation has one meaning. A value is 64 bits and a flag byte.
from libc.math cimport isnan
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy

from keuka.kernel.strings cimport StringTable

cdef extern from *:
    """
    #include <charconv>
    static inline bool keuka_add(long a, long b, int64_t* r) { return __builtin_add_overflow((int64_t)a, (int64_t)b, r); }
    static inline bool keuka_sub(long a, long b, int64_t* r) { return __builtin_sub_overflow((int64_t)a, (int64_t)b, r); }
    // Shortest form that reads back as x, and back; unlike printf and atof they know no locale.
    static inline void keuka_write(double x, char* text) {
        *std::to_chars(text, text + 63, x, std::chars_format::scientific).ptr = 0;
    }
    static inline double keuka_read(const char* text, int size) {
        double x = 0;
        std::from_chars(text, text + size, x);
        return x;
    }
    static inline bool keuka_mul(long a, long b, int64_t* r) { return __builtin_mul_overflow((int64_t)a, (int64_t)b, r); }
    """
    bint add_overflows "keuka_add"(int64_t a, int64_t b, int64_t* result) noexcept nogil
    bint sub_overflows "keuka_sub"(int64_t a, int64_t b, int64_t* result) noexcept nogil
    void write_shortest "keuka_write"(double x, char* text) noexcept nogil
    double read_double "keuka_read"(const char* text, int size) noexcept nogil
    bint mul_overflows "keuka_mul"(int64_t a, int64_t b, int64_t* result) noexcept nogil

cpdef enum:
    VALID = 0
    IS_NULL = 1
    IS_ERROR = 2  # integer overflow; raised only if a predicate or an attribute comes out as one

cpdef enum:
    CHUNK = 1024  # lanes evaluated at a time over a batch: 8 kB a register, so a program's registers stay in cache

cdef struct Instruction:
    int32_t op
    int32_t dst
    int32_t a
    int32_t b
    int32_t c

# dst, a, b and c are registers unless said otherwise. Operations from JUMP_UNLESS on are control: evaluate stops there.
cpdef enum Op:
    LOAD_EVENT = 0    # a: column of the event
    LOAD_SLOT = 1     # a: slot of the instance
    LOAD_CONST = 2    # a: constant
    LOAD_NULL = 3
    LOAD_DUR = 4      # end - start + 1 of the event, or of instance and event together
    TO_DOUBLE = 5
    ADD_I = 6
    SUB_I = 7
    MUL_I = 8
    NEG_I = 9
    ABS_I = 10
    MOD_I = 11
    ADD_D = 12
    SUB_D = 13
    MUL_D = 14
    DIV_D = 15
    NEG_D = 16
    ABS_D = 17
    MOD_D = 18
    FLOOR_D = 19
    CEIL_D = 20
    ROUND_D = 21      # b: digits
    ROUND_I = 22      # b: digits
    EQ_I = 23
    LT_I = 24
    LE_I = 25
    EQ_D = 26
    LT_D = 27
    LE_D = 28
    LT_S = 29
    LE_S = 30
    NOT = 31
    AND = 32
    OR = 33
    NULL_TEST = 34
    SELECT = 35       # a: condition, b: if true, c: otherwise
    COALESCE = 36
    LEAST_I = 37
    LEAST_D = 38
    LEAST_S = 39
    GREATEST_I = 40
    GREATEST_D = 41
    GREATEST_S = 42
    LOWER = 43
    UPPER = 44
    LENGTH = 45
    SUBSTRING = 46    # b: position, c: length
    CONCAT = 47
    LIKE = 48         # b: pattern
    IN_SET = 49       # b: a set of constants (index into sets); doubles arrive canonical
    IN_SET_D = 50
    MOVE = 51
    FUNCTION = 52     # b: second argument, if there is one, c: which (functions.pxd)
    LOCAL = 53        # a: a time, b: the offsets of a zone (a set): what its clocks showed
    INSTANT = 54      # a: what the clocks showed, b: the offsets of a zone (a set): when they first did
    SCALE_UP = 55     # times 10 to the power of the number b; beyond 64 bits the largest or least value
    LIMIT = 56        # an error above b or below its opposite
    UNSCALE = 57      # as a double, divided by 10 to the power of the number b
    JUMP_UNLESS = 60  # a: condition, b: instruction to go on at
    AFFECT = 61       # the candidate passed skip: the instance ends with this epoch
    EMIT = 62         # a: state (or -1: the operator's output), b: first operand, c: number of operands
    END = 63
    FORWARD = 64      # the candidate was taken: run the forward edges of the state

cdef struct Column:
    const int64_t* values
    const uint8_t* flags  # NULL: all valid

cdef struct SetRow:
    int64_t first           # of its values
    int64_t end

cdef struct Sets:
    const SetRow* rows
    const int64_t* values  # sorted within each set

cdef struct Frame:
    int64_t* values         # (n_registers,), or (n_registers * CHUNK,) for many lanes
    uint8_t* flags
    const Column* columns   # of the event's port
    const int64_t* starts   # of the event's port
    const int64_t* ends
    const int64_t* constants
    Sets sets
    int64_t row             # first row
    int64_t instance_start
    const int64_t* slots    # of the instance; NULL when there is none
    const uint8_t* slot_flags

# Both run value instructions from `pc` on and return where the next control instruction is; -1 when memory is out.
cdef int evaluate(const Instruction* code, int pc, Frame* frame, int64_t n, StringTable strings) noexcept nogil  # CHUNK lanes apart
cdef int evaluate_one(const Instruction* code, int pc, Frame* frame, StringTable strings) noexcept nogil
cdef int64_t canonical_double(int64_t bits) noexcept nogil
cdef bint round_integer(int64_t value, int64_t digits, int64_t* result) noexcept nogil
cdef double round_double(double x, int64_t digits) noexcept nogil
cdef double unscaled(int64_t value, int64_t scale) noexcept nogil
cdef bint in_set(Frame* frame, int32_t which, int64_t value) noexcept nogil

cdef inline bint less(double a, double b) noexcept nogil:
    # NaN is larger than every number.
    return a < b or (isnan(b) and not isnan(a))

cdef inline uint8_t strict(uint8_t a, uint8_t b) noexcept nogil:
    cdef uint8_t either = a | b
    return 1 if either & 1 else either  # 1 is IS_NULL

cdef inline int64_t scaled(int64_t value, int64_t power, bint is_beyond) noexcept nogil:
    # The product, or the largest value of its sign; `is_beyond`: only zero has another product.
    cdef int64_t product = 0
    if mul_overflows(value, power, &product) or (is_beyond and value != 0):
        return INT64_MAX if value > 0 else -INT64_MAX
    return product

cdef inline bint prefers(int op, int64_t a, int64_t b, StringTable strings) noexcept nogil:
    # Does least / greatest take a rather than b?
    cdef double x = 0
    cdef double y = 0
    if op == <int>LEAST_I:
        return a <= b
    if op == <int>GREATEST_I:
        return a >= b
    if op == <int>LEAST_S:
        return strings.compare(a, b) <= 0
    if op == <int>GREATEST_S:
        return strings.compare(a, b) >= 0
    memcpy(&x, &a, 8)
    memcpy(&y, &b, 8)
    return not less(y, x) if op == <int>LEAST_D else not less(x, y)
