"""Growing arrays in plain C memory, and their way out as numpy arrays. What runs per event is inline in the `.pxd`."""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import reallocate
from cython.cimports.libc.string import memcpy


def grow(buffer, size):
    if size <= buffer.capacity:
        return True
    wanted: int64_t = max(size, 2 * buffer.capacity + 16)
    if not reallocate(cython.address(buffer.data), buffer.capacity * 8, wanted * 8):
        return False
    buffer.capacity = wanted
    return True


def grow_flags(buffer, size):
    if size <= buffer.capacity:
        return True
    wanted: int64_t = max(size, 2 * buffer.capacity + 16)
    if not reallocate(cython.address(buffer.data), buffer.capacity, wanted):
        return False
    buffer.capacity = wanted
    return True


def copy_words(buffer, n):
    array = np.empty(n, np.int64)
    view: int64_t[::1] = array
    if n > 0:
        memcpy(cython.address(view[0]), buffer.data, n * 8)
    return array


def copy_flags(buffer, n):
    """None if no flag is set."""
    for i in range(n):
        if buffer.data[i] != 0:
            break
    else:
        return None
    array = np.empty(n, np.uint8)
    view: uint8_t[::1] = array
    if n > 0:
        memcpy(cython.address(view[0]), buffer.data, n)
    return array


def shrink(buffer):
    """Give memory back after a burst."""
    wanted: int64_t = 2 * buffer.size + MANY_WORDS
    if buffer.capacity > 4 * wanted and reallocate(cython.address(buffer.data), buffer.capacity * 8, wanted * 8):
        buffer.capacity = wanted
