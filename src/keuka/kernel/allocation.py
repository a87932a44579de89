"""Memory of the kernel, counted: every growing array takes its bytes from the room that its thread was given for a step.

Arrays grow by doubling, so that counting costs nothing per event. Functions return False or NULL when memory is out or the
room is not enough; `was_refused` tells which.
"""

import cython
from cython.cimports.keuka.kernel.thread import get_refused, get_room, put_refused, put_room
from cython.cimports.libc.stdlib import calloc, free, realloc


def reallocate(place, n_before, n_bytes):
    """Give the array at a place `n_bytes` instead of `n_before`; False leaves it as it is."""
    array: cython.pointer(cython.p_void) = cython.cast(cython.pointer(cython.p_void), place)
    if n_bytes > n_before and not fits(n_bytes - n_before):
        return False
    resized: cython.p_void = realloc(array[0], n_bytes)
    if resized == cython.NULL:
        return False
    array[0] = resized
    put_room(get_room() - (n_bytes - n_before))
    return True


def zeroed(n_bytes):
    """A new array of zeros."""
    data: cython.p_void
    if not fits(n_bytes):
        return cython.NULL
    data = calloc(n_bytes, 1)
    if data != cython.NULL:
        put_room(get_room() - n_bytes)
    return data


def release(data, n_bytes):
    """Give an array back."""
    free(data)
    put_room(get_room() + n_bytes)


def fits(n_bytes):
    if n_bytes <= get_room():
        return True
    put_refused(True)
    return False


def set_room(n_bytes):
    """So many bytes may be taken from now on. Nothing was refused yet."""
    put_room(n_bytes)
    put_refused(False)


def room():
    """What may still be taken."""
    return get_room()


def was_refused():
    """Was the room not enough since it was set?"""
    return get_refused()
