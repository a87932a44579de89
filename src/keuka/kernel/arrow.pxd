# Arrow's C data interface: how record batches come in and go out with one call each.
from libc.stdint cimport int64_t

cdef extern from *:
    """
    #ifndef ARROW_C_DATA_INTERFACE
    #define ARROW_C_DATA_INTERFACE
    #include <stdint.h>
    struct ArrowArray {
        int64_t length, null_count, offset, n_buffers, n_children;
        const void** buffers;
        struct ArrowArray** children;
        struct ArrowArray* dictionary;
        void (*release)(struct ArrowArray*);
        void* private_data;
    };
    #endif
    """
    struct ArrowArray:
        int64_t length
        int64_t null_count  # -1: nobody has counted
        int64_t offset
        int64_t n_buffers
        int64_t n_children
        const void** buffers
        ArrowArray** children
        ArrowArray* dictionary
        void (*release)(ArrowArray*) noexcept nogil
        void* private_data

cpdef enum:           # rows of the words of a batch
    START_WORD = 0
    END_WORD = 1
    HEADER_WORDS = 2  # then come the columns

cdef class Chunk:
    cdef readonly object batch
    cdef readonly int64_t n_rows
    cdef readonly bint is_point      # do all events start when they end?
    cdef readonly bint has_times     # False: the time column may have nulls, and nothing can be read
    cdef object times                # (starts, ends) as they were given, or None
    cdef int64_t time_index
    cdef int64_t n_batch_rows
    cdef ArrowArray array            # the whole batch; empty if that is wide
    cdef ArrowArray** singles        # the columns of a wide batch that were asked for
    cdef int64_t* single_indices
    cdef int64_t n_singles
    cdef const int64_t* start_data
    cdef const int64_t* end_data
    cdef const int64_t* words(self, int64_t index, int64_t first, int64_t last) except *
    cdef bint may_have_nulls(self, int64_t index) except *
    cdef ArrowArray* column(self, int64_t index) except *

cdef struct WordColumn:
    int64_t number  # for the machine
    const int64_t* values

cdef class Words:
    cdef readonly list left
    cdef list pieces
    cdef int64_t n_rows
    cdef int64_t n_columns
    cdef WordColumn* columns
    cdef const int64_t* starts
    cdef const int64_t* ends
    cdef int64_t* copied
    cdef read(self, int64_t number, int64_t index)
    cdef read_times(self)

cdef bint allocate(ArrowArray* batch, int64_t n_rows, int64_t n_children) noexcept nogil
cdef void release_batch(ArrowArray* batch) noexcept nogil
cdef void release_words(ArrowArray* column) noexcept nogil
