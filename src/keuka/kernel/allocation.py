"""Memory of the kernel, counted: every growing array takes its bytes from the room that its thread was given for a step.

Arrays grow by doubling, so that counting costs nothing per event. Functions return NULL when memory is out or the room is not enough;
`was_refused` tells which.
"""

import cython
from cython.cimports.keuka.kernel.thread import get_refused, get_room, put_refused, put_room
from cython.cimports.libc.stdint import int64_t
from cython.cimports.libc.stdlib import calloc, free, realloc


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def reallocate(data: cython.p_void, n_before: int64_t, n_bytes: int64_t) -> cython.p_void:
    """The array with `n_bytes` instead of `n_before`; NULL leaves it as it is."""
    resized: cython.p_void
    if n_bytes > n_before and not fits(n_bytes - n_before):
        return cython.NULL
    resized = realloc(data, n_bytes)
    if resized != cython.NULL:
        put_room(get_room() - (n_bytes - n_before))
    return resized


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def zeroed(n_bytes: int64_t) -> cython.p_void:
    """A new array of zeros."""
    data: cython.p_void
    if not fits(n_bytes):
        return cython.NULL
    data = calloc(n_bytes, 1)
    if data != cython.NULL:
        put_room(get_room() - n_bytes)
    return data


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def release(data: cython.p_void, n_bytes: int64_t) -> cython.void:
    """Give an array back."""
    free(data)
    put_room(get_room() + n_bytes)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def fits(n_bytes: int64_t) -> cython.bint:
    if n_bytes <= get_room():
        return True
    put_refused(True)
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def set_room(n_bytes: int64_t) -> cython.void:
    """So many bytes may be taken from now on. Nothing was refused yet."""
    put_room(n_bytes)
    put_refused(False)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def room() -> int64_t:
    """What may still be taken."""
    return get_room()


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def was_refused() -> cython.bint:
    """Was the room not enough since it was set?"""
    return get_refused()
