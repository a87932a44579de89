"""The instances of one state: a table of keys, and for every key a block in which its instances lie next to each other.

A candidate so compares its key once and then walks through memory in order. Blocks have room for a power of two of
instances; functions that need memory return False when it is out.
"""

import cython
from cython.cimports.keuka.kernel.allocation import reallocate, release, zeroed
from cython.cimports.keuka.kernel.buffers import copy_words, grow
from cython.cimports.keuka.kernel.bytecode import canonical_double
from cython.cimports.keuka.kernel.hashing import HASH_SEED, mix
from cython.cimports.libc.stdlib import free
from cython.cimports.libc.string import memcpy


def clear(pool):
    """Let go of all instances."""
    if pool.sieve != cython.NULL:
        pool.sieve.stale = True
    release(pool.entries, pool.n_entries * cython.sizeof(Entry))
    release(pool.data, pool.capacity * 8)
    pool.entries = cython.NULL
    pool.data = cython.NULL
    pool.n_entries = pool.n_used = pool.size = pool.capacity = pool.n_live = 0
    pool.shift = 64
    pool.sweep_at = 1024
    for c in range(LARGEST_CLASS):
        pool.free_blocks[c] = -1


def key_of_instance(pool, words, hash_):
    """Hash the key slots; False if one is null."""
    flags: cython.pointer(cython.const[uint8_t]) = cython.cast(cython.pointer(cython.const[uint8_t]), words + HEADER + pool.n_slots)
    h: uint64_t = HASH_SEED
    for k in range(pool.n_keys):
        if flags[pool.keys[k].slot] != 0:
            return False
        value = words[HEADER + pool.keys[k].slot]
        if pool.keys[k].is_double:
            value = canonical_double(value)
        h = mix(h, value)
    hash_[0] = h | 1
    return True


def same_key(pool, words, other):
    """Has an instance the key of one that is stored? A null in the key equals nothing, and such an instance is never stored."""
    flags: cython.pointer(cython.const[uint8_t]) = cython.cast(cython.pointer(cython.const[uint8_t]), words + HEADER + pool.n_slots)
    for k in range(pool.n_keys):
        slot = pool.keys[k].slot
        if flags[slot] != 0:
            return False
        slot += HEADER
        if pool.keys[k].is_double:
            if canonical_double(words[slot]) != canonical_double(other[slot]):
                return False
        elif words[slot] != other[slot]:
            return False
    return True


def insert(pool, words, hash_):
    """Add a copy of an instance."""
    # Three quarters of the entries stay free: most events find a free one and look no further.
    if 4 * (pool.n_used + 1) > pool.n_entries and not resize(pool, 2 * pool.n_entries if pool.n_entries > 0 else 4):
        return False
    position: int64_t = home_of(pool, hash_)
    while True:
        entry = pool.entries + position
        if entry.hash == 0:
            block: int64_t = allocate(pool, 0)
            if block < 0:
                return False
            entry.hash = hash_
            entry.block = block
            entry.n = 0
            entry.size_class = 0
            pool.n_used += 1
            count_key(pool.sieve, hash_)
            break
        if entry.hash == hash_ and same_key(pool, words, pool.data + entry.block):
            if entry.n == 1 << entry.size_class and not widen(pool, entry):
                return False
            break
        position = (position + 1) & (pool.n_entries - 1)
    memcpy(pool.data + entry.block + entry.n * pool.width, words, pool.width * 8)
    entry.n += 1
    pool.n_live += 1
    pool.most_live = max(pool.most_live, pool.n_live)
    return True


def allocate(pool, size_class):
    """A block; -1 when memory is out."""
    block: int64_t = pool.free_blocks[size_class]
    if block >= 0:
        pool.free_blocks[size_class] = pool.data[block]
        return block
    n_words: int64_t = pool.width << size_class
    if pool.size + n_words > pool.capacity:
        wanted: int64_t = 2 * pool.capacity + n_words
        if not reallocate(cython.address(pool.data), pool.capacity * 8, wanted * 8):
            return -1
        pool.capacity = wanted
    block = pool.size
    pool.size += n_words
    return block


def widen(pool, entry):
    """Twice the room for the instances of a key."""
    block: int64_t = allocate(pool, entry.size_class + 1)
    if block < 0:
        return False
    memcpy(pool.data + block, pool.data + entry.block, entry.n * pool.width * 8)
    give_back(pool, entry.block, entry.size_class)
    entry.block = block
    entry.size_class += 1
    return True


def resize(pool, n_entries):
    """Spread the keys over this many entries, a power of two and at least four."""
    fresh: cython.pointer(Entry) = cython.cast(cython.pointer(Entry), zeroed(n_entries * cython.sizeof(Entry)))
    if fresh == cython.NULL:
        return False
    n: int64_t = n_entries
    pool.shift = 64
    while n > 1:
        n >>= 1
        pool.shift -= 1
    for i in range(pool.n_entries):
        if pool.entries[i].hash != 0:
            position = home_of(pool, pool.entries[i].hash)
            while fresh[position].hash != 0:
                position = (position + 1) & (n_entries - 1)
            fresh[position] = pool.entries[i]
    release(pool.entries, pool.n_entries * cython.sizeof(Entry))
    pool.entries = fresh
    pool.n_entries = n_entries
    return True


def reserve(pool, n_keys):
    """Room for so many keys from the beginning, for an empty pool that gets instances in the order of their hashes.

    In a table that still has to grow they would all crowd at its beginning.
    """
    n_entries: int64_t = 4
    while n_entries < 4 * (n_keys + 1):
        n_entries *= 2
    return n_keys == 0 or resize(pool, n_entries)


def remove_instance(pool, entry, i):
    """The last instance of the key takes its place. An entry without instances must be removed by the caller."""
    entry.n -= 1
    pool.n_live -= 1
    if i < entry.n:
        memcpy(pool.data + entry.block + i * pool.width, pool.data + entry.block + entry.n * pool.width, pool.width * 8)


def remove_entry(pool, position):
    """Forget a key without instances. Entries behind it move up, so that no gap cuts them off from where they are looked for."""
    mask: int64_t = pool.n_entries - 1
    uncount_key(pool.sieve, pool.entries[position].hash)
    give_back(pool, pool.entries[position].block, pool.entries[position].size_class)
    following: int64_t = (position + 1) & mask
    while pool.entries[following].hash != 0:
        if ((following - home_of(pool, pool.entries[following].hash)) & mask) >= ((following - position) & mask):
            pool.entries[position] = pool.entries[following]
            position = following
        following = (following + 1) & mask
    pool.entries[position].hash = 0
    pool.n_used -= 1


def remove_empty(pool, hash_):
    """Forget a key with this hash if it has no instances left."""
    position: int64_t = home_of(pool, hash_)
    while pool.entries[position].hash != 0:
        if pool.entries[position].hash == hash_ and pool.entries[position].n == 0:
            remove_entry(pool, position)
            return
        position = (position + 1) & (pool.n_entries - 1)


def expire(pool, tick):
    """Drop the instances that no candidate after `tick` can complete, and give memory back if most of it is unused.

    Run when the number of instances doubled or a window went by, so the cost is constant per instance.
    """
    n_before: int64_t = pool.n_live
    # The next candidate ends after `tick`, so its DUR is larger by at least one.
    later: int64_t = tick + 1 if tick < INT64_MAX else tick
    if pool.window < INT64_MAX:
        for position in range(pool.n_entries):
            entry = pool.entries + position
            if entry.hash == 0:
                continue
            i = 0
            while i < entry.n:
                words = pool.data + entry.block + i * pool.width
                if beyond(words[START], later, pool.window):
                    remove_instance(pool, entry, i)
                else:
                    i += 1
    pool.swept_at = tick
    pool.sweep_at = max(2 * pool.n_live, cython.cast(int64_t, 1024))
    if pool.n_live < n_before or is_sparse(pool):
        return rebuild(pool)
    return True


def rebuild(pool):
    """Write all instances into new memory that has room for no more than them, and forget keys without any."""
    old: Pool = pool[0]
    n_keys: int64_t = 0
    pool.entries = cython.NULL
    pool.data = cython.NULL
    pool.n_entries = pool.capacity = 0
    clear(pool)
    pool.sweep_at = old.sweep_at
    for position in range(old.n_entries):
        n_keys += old.entries[position].hash != 0 and old.entries[position].n > 0
    if not reserve(pool, n_keys):
        pool[0] = old
        return False
    for position in range(old.n_entries):
        if old.entries[position].hash == 0:
            continue
        for i in range(old.entries[position].n):
            if not insert(pool, old.data + old.entries[position].block + i * pool.width, old.entries[position].hash):
                clear(pool)
                pool[0] = old
                return False
    release(old.entries, old.n_entries * cython.sizeof(Entry))
    release(old.data, old.capacity * 8)
    return True


# -- between batches ---------------------------------------------------------------------------------------------------------


def has_key(pool, words, slots, key):
    """Has an instance these values in these slots, as the kernel compares keys?"""
    for i in range(slots.shape[0]):
        value = words[HEADER + slots[i]]
        wanted = key[i]
        for k in range(pool.n_keys):
            if pool.keys[k].slot == slots[i] and pool.keys[k].is_double:
                value, wanted = canonical_double(value), canonical_double(wanted)
                break
        if value != wanted:
            return False
    return True


def find_entry(pool, slots, key, position):
    """The next entry with the key, from a position on; -1 if there is none.

    A state that is looked up by the key alone has one entry for it, which its hash finds. Others are looked through, entry by entry.
    """
    h: uint64_t = HASH_SEED
    is_whole: cython.bint = pool.n_keys == slots.shape[0]
    if pool.n_entries == 0:
        return -1
    for k in range(pool.n_keys if is_whole else 0):
        for i in range(slots.shape[0]):
            if slots[i] == pool.keys[k].slot:
                h = mix(h, canonical_double(key[i]) if pool.keys[k].is_double else key[i])
                break
        else:
            is_whole = False
            break
    if not is_whole:
        while position < pool.n_entries:
            if pool.entries[position].hash != 0 and has_key(pool, pool.data + pool.entries[position].block, slots, key):
                return position
            position += 1
        return -1
    h |= 1
    i = home_of(pool, h)
    while pool.entries[i].hash != 0:
        if pool.entries[i].hash == h and has_key(pool, pool.data + pool.entries[i].block, slots, key):
            return i if i >= position else -1
        i = (i + 1) & (pool.n_entries - 1)
    return -1


def copy_instances(pool, slots, keys):
    """All instances, or those with one of the keys, a row of words each."""
    found: Buffer = Buffer(data=cython.NULL, size=0, capacity=0)
    position: int64_t = 0
    enough: cython.bint = True
    if keys is None:
        for position in range(pool.n_entries):
            enough = enough and (pool.entries[position].hash == 0 or copy_entry(pool, position, cython.address(found)))
    else:
        for key in keys:
            position = find_entry(pool, slots, key, 0)
            while position >= 0:
                enough = enough and copy_entry(pool, position, cython.address(found))
                position = find_entry(pool, slots, key, position + 1)
    rows = copy_words(cython.address(found), found.size if enough else 0).reshape(-1, pool.width)
    free(found.data)
    if not enough:
        raise MemoryError("no memory for the instances")
    return rows


def copy_entry(pool, position, found):
    n: int64_t = pool.entries[position].n * pool.width
    if not grow(found, found.size + n):
        return False
    memcpy(found.data + found.size, pool.data + pool.entries[position].block, n * 8)
    found.size += n
    return True


def drop_entries(pool, slots, keys):
    """Forget the instances with one of the keys."""
    for key in keys:
        position = find_entry(pool, slots, key, 0)
        while position >= 0:
            pool.n_live -= pool.entries[position].n
            pool.entries[position].n = 0
            remove_entry(pool, position)  # another one may move here
            position = find_entry(pool, slots, key, position)
