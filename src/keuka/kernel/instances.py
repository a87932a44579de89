"""The instances of one state: a pool of fixed width, a hash index over their key slots, and dropping what is out of time.

An instance is its number in the pool. Functions that need memory return False, or -1 for a number, when it is out.
"""

import cython
from cython.cimports.keuka.kernel.bytecode import canonical_double
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.libc.stdint import INT64_MAX, int64_t, uint8_t, uint64_t
from cython.cimports.libc.stdlib import free, malloc, realloc
from cython.cimports.libc.string import memcpy


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def allocate(state: cython.pointer(State)) -> int64_t:
    instance: int64_t = state.free_head
    if instance >= 0:
        state.free_head = (state.data + instance * state.width)[NEXT]
        return instance
    if state.n_used == state.capacity:
        wanted: int64_t = 2 * state.capacity + 16
        data: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), realloc(state.data, wanted * state.width * 8))
        if data == cython.NULL:
            return -1
        state.data = data
        state.capacity = wanted
    state.n_used += 1
    return state.n_used - 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def key_of_instance(state: cython.pointer(State), words: cython.pointer(int64_t)) -> cython.bint:
    """Hash the key slots; False if one is null."""
    flags: cython.pointer(uint8_t) = cython.cast(cython.pointer(uint8_t), words + HEADER + state.n_slots)
    hash_: uint64_t = HASH_SEED
    k: int64_t
    value: int64_t
    for k in range(state.n_keys):
        if flags[state.keys[3 * k + 1]] != 0:
            return False
        value = words[HEADER + state.keys[3 * k + 1]]
        if state.keys[3 * k + 2]:
            value = canonical_double(value)
        hash_ = mix(hash_, value)
    words[HASH] = hash_ | 1
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def link(state: cython.pointer(State), instance: int64_t) -> cython.bint:
    # Four buckets an instance: most events find an empty one and never touch the instances' memory.
    if state.n_keys > 0 and 4 * state.n_live >= state.n_buckets and not rehash(state, 2 * state.n_buckets):
        return False
    put_first(state, instance)
    state.n_live += 1
    state.most_live = max(state.most_live, state.n_live)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def rehash(state: cython.pointer(State), n_buckets: int64_t) -> cython.bint:
    """Spread the linked instances over this many buckets, a power of two and at least two."""
    fresh: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), malloc(n_buckets * 8))
    if fresh == cython.NULL:
        return False
    old: cython.pointer(int64_t) = state.buckets
    n_old: int64_t = state.n_buckets
    i: int64_t
    instance: int64_t
    following: int64_t
    for i in range(n_buckets):
        fresh[i] = -1
    state.buckets = fresh
    state.n_buckets = n_buckets
    state.shift = 64
    while n_buckets > 1:
        n_buckets >>= 1
        state.shift -= 1
    for i in range(n_old):
        instance = old[i]
        while instance >= 0:
            following = (state.data + instance * state.width)[NEXT]
            put_first(state, instance)
            instance = following
    free(old)
    return True


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def compact(state: cython.pointer(State)) -> cython.bint:
    """Give memory back after a burst: instances next to each other, and buckets for no more than there are.

    Only when every instance is linked, because it renumbers them.
    """
    if state.capacity <= 8 * state.n_live + 1024:
        return True
    capacity: int64_t = 2 * state.n_live + 16
    data: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), malloc(capacity * state.width * 8))
    if data == cython.NULL:
        return False
    n_buckets: int64_t = FEWEST_BUCKETS
    while state.n_keys > 0 and n_buckets < 8 * state.n_live:
        n_buckets *= 2
    n: int64_t = 0
    bucket: int64_t
    instance: int64_t
    first: int64_t
    for bucket in range(state.n_buckets):
        instance = state.buckets[bucket]
        first = -1
        while instance >= 0:
            memcpy(data + n * state.width, state.data + instance * state.width, state.width * 8)
            (data + n * state.width)[NEXT] = first
            first = n
            n += 1
            instance = (state.data + instance * state.width)[NEXT]
        state.buckets[bucket] = first
    free(state.data)
    state.data = data
    state.capacity = capacity
    state.n_used = n
    state.free_head = -1
    return rehash(state, n_buckets)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def unlink(state: cython.pointer(State), instance: int64_t) -> cython.void:
    words: cython.pointer(int64_t) = state.data + instance * state.width
    if words[PREVIOUS] >= 0:
        (state.data + words[PREVIOUS] * state.width)[NEXT] = words[NEXT]
    else:
        state.buckets[bucket_of(state, words[HASH])] = words[NEXT]
    if words[NEXT] >= 0:
        (state.data + words[NEXT] * state.width)[PREVIOUS] = words[PREVIOUS]
    state.n_live -= 1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def expire(state: cython.pointer(State), tick: int64_t) -> cython.bint:
    """Drop the instances that no later candidate can complete. Run when the pool doubled, so constant per instance."""
    bucket: int64_t
    instance: int64_t
    following: int64_t
    if state.window < INT64_MAX:
        for bucket in range(state.n_buckets):
            instance = state.buckets[bucket]
            while instance >= 0:
                following = (state.data + instance * state.width)[NEXT]
                # The next candidate ends after `tick`, so its DUR is larger by at least one.
                if beyond((state.data + instance * state.width)[START], tick + 1, state.window):
                    unlink(state, instance)
                    (state.data + instance * state.width)[NEXT] = state.free_head
                    state.free_head = instance
                instance = following
    state.sweep_at = max(2 * state.n_live, cython.cast(int64_t, 1024))
    return compact(state)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def put_first(state: cython.pointer(State), instance: int64_t) -> cython.void:
    """Make it the first of its bucket."""
    words: cython.pointer(int64_t) = state.data + instance * state.width
    bucket: int64_t = bucket_of(state, words[HASH])
    first: int64_t = state.buckets[bucket]
    words[NEXT] = first
    words[PREVIOUS] = -1
    if first >= 0:
        (state.data + first * state.width)[PREVIOUS] = instance
    state.buckets[bucket] = instance
