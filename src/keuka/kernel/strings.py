"""The string table of a run: bytes in, 64-bit codes out, and the string functions of the expression language.

The table grows with the distinct texts that are alive; `sweep` gives the codes nobody holds any more to new texts.
Functions that make text return -1 when memory is out; the caller turns that into a clean error.
"""

import cython
import numpy as np
from cython.cimports.keuka.kernel.allocation import reallocate, release
from cython.cimports.keuka.kernel.hashing import HASH_STEP
from cython.cimports.libc.stdlib import free, malloc
from cython.cimports.libc.string import memcmp, memset


@cython.final
@cython.cclass
class StringTable:
    def __cinit__(self):
        # The blob is there from the beginning: copying no bytes from nowhere is undefined in C.
        if not self.rebuild_buckets(64) or not self.reserve_blob(1):
            raise MemoryError("no memory for the string table")

    def __dealloc__(self):
        free(self.entries)
        free(self.free_codes)
        free(self.blob)
        free(self.buckets)
        free(self.scratch)
        self.forget_verdicts()

    # -- growing ------------------------------------------------------------------------------------------------------

    def rebuild_buckets(self, n_buckets):
        fresh: cython.pointer(int64_t) = cython.NULL
        if not reallocate(cython.address(fresh), 0, n_buckets * 8):
            return False
        for i in range(n_buckets):
            fresh[i] = -1
        for i in range(self.n_codes):
            if self.entries[i].offset >= 0:
                slot = self.entries[i].hash & (n_buckets - 1)
                while fresh[slot] >= 0:
                    slot = (slot + 1) & (n_buckets - 1)
                fresh[slot] = i
        release(self.buckets, self.n_buckets * 8)
        self.buckets = fresh
        self.n_buckets = n_buckets
        return True

    def reserve_blob(self, length):
        if self.blob_size + length <= self.blob_capacity:
            return True
        wanted: int64_t = 2 * self.blob_capacity + length + 1024
        if not reallocate(cython.address(self.blob), self.blob_capacity, wanted):
            return False
        self.blob_capacity = wanted
        return True

    def reserve_code(self):
        if self.n_free > 0 or self.n_codes < self.capacity:
            return True
        wanted: int64_t = 2 * self.capacity + 64
        size: int64_t = cython.sizeof(Entry)
        if not reallocate(cython.address(self.entries), self.capacity * size, wanted * size):
            return False
        if not reallocate(cython.address(self.free_codes), self.capacity * 8, wanted * 8):
            return False
        self.capacity = wanted
        return True

    def add(self, data, length, readable):
        """The code of a text, new or known; -1 when memory is out. `readable` bytes from `data` on may be read."""
        h: uint64_t = hash_bytes(data, length, readable)
        prefix: uint64_t = first_word(data, length, readable)
        slot: int64_t = h & (self.n_buckets - 1)
        while True:
            code = self.buckets[slot]
            if code < 0:
                break
            if self.entries[code].hash == h and self.entries[code].length == length and self.entries[code].prefix == prefix:
                if length <= 8 or memcmp(self.blob + self.entries[code].offset, data, length) == 0:
                    return code
            slot = (slot + 1) & (self.n_buckets - 1)
        # The bytes may lie in the blob itself, which growing moves.
        inside: cython.bint = self.blob != cython.NULL and data >= self.blob and data < self.blob + self.blob_size
        offset: int64_t = data - self.blob if inside else 0
        if not self.reserve_blob(length) or not self.reserve_code():
            return -1
        if inside:
            data = self.blob + offset
        if self.n_free > 0:
            self.n_free -= 1
            code = self.free_codes[self.n_free]
        else:
            code = self.n_codes
            self.n_codes += 1
        if length > 0:
            memcpy(self.blob + self.blob_size, data, length)
        self.entries[code].offset = self.blob_size
        self.entries[code].length = length
        self.entries[code].hash = h
        self.entries[code].prefix = prefix
        self.blob_size += length
        self.buckets[slot] = code
        if 2 * (self.n_codes - self.n_free) > self.n_buckets:
            if not self.rebuild_buckets(4 * self.n_buckets):
                return -1
        return code

    # -- doors to Python ----------------------------------------------------------------------------------------------

    def intern(
        self,
        offsets: cython.const[int32_t][::1],
        data: cython.const[uint8_t][::1],
        valid: cython.const[uint8_t][::1],
        codes: int64_t[::1],
    ) -> None:
        """Codes of an Arrow string column: `offsets` has one more entry than `codes`; `valid` may be empty (no nulls)."""
        n: int64_t = codes.shape[0]
        code: int64_t = 0
        has_nulls: cython.bint = valid.shape[0] > 0
        size: int64_t = data.shape[0]
        empty: cython.char = 0
        text: cython.pointer(cython.const[cython.char]) = cython.address(empty)
        # The latest short texts, by their bytes: most columns of text have few values, and a row of one then costs a load.
        known: Known[N_KNOWN]
        place: int64_t = 0
        memset(cython.address(known[0]), 0xFF, N_KNOWN * cython.sizeof(Known))  # no text has this length
        if data.shape[0] > 0:
            text = cython.cast(cython.pointer(cython.const[cython.char]), cython.address(data[0]))
        with cython.nogil:
            for i in range(n):
                if has_nulls and valid[i] == 0:
                    codes[i] = 0
                    continue
                if offsets[i] < 0 or offsets[i + 1] < offsets[i] or offsets[i + 1] > size:
                    code = -2
                    break
                length = offsets[i + 1] - offsets[i]
                if length <= 8:
                    prefix = first_word(text + offsets[i], length, size - offsets[i])
                    place = cython.cast(int64_t, (prefix * HASH_STEP) >> (64 - KNOWN_BITS))
                    if known[place].prefix == prefix and known[place].length == length:
                        codes[i] = known[place].code
                        continue
                code = self.add(text + offsets[i], length, size - offsets[i])
                if code < 0:
                    break
                codes[i] = code
                if length <= 8:
                    known[place] = Known(prefix=prefix, length=length, code=code)
        if code == -2:
            raise ValueError("the offsets of a text column lie outside its data")
        if code < 0:
            raise MemoryError("no memory for the strings of a batch")

    def intern_text(self, text: str) -> int:
        encoded: bytes = text.encode()
        data: cython.pointer(cython.const[cython.char]) = encoded
        code: int64_t = self.add(data, len(encoded), len(encoded))
        if code < 0:
            raise MemoryError("no memory for a string")
        return code

    def byte_lengths(self, codes: cython.const[int64_t][::1], flags: cython.const[uint8_t][::1], offsets: int32_t[::1]) -> None:
        """Arrow offsets of the texts of `codes`; rows whose flag is set are empty. `flags` may be empty."""
        total: int64_t = 0
        offsets[0] = 0
        for i in range(codes.shape[0]):
            if flags.shape[0] == 0 or flags[i] == 0:
                total += self.entries[codes[i]].length
            if total > 0x7FFFFFFF:
                raise OverflowError("more than 2 GB of text in one batch of results")
            offsets[i + 1] = total

    def copy_texts(self, codes: cython.const[int64_t][::1], offsets: cython.const[int32_t][::1], data: uint8_t[::1]) -> None:
        for i in range(codes.shape[0]):
            length = offsets[i + 1] - offsets[i]
            if length > 0:
                memcpy(cython.address(data[offsets[i]]), self.blob + self.entries[codes[i]].offset, length)

    @property
    def n_alive(self) -> int:
        return self.n_codes - self.n_free

    @property
    def n_bytes(self) -> int:
        return self.total()

    def total(self):
        """Bytes of memory."""
        of_verdicts: int64_t = 0
        for i in range(self.n_verdicts):
            of_verdicts += self.verdicts[i].capacity
        return of_verdicts + self.blob_capacity + self.scratch_capacity + self.capacity * (cython.sizeof(Entry) + 8) + self.n_buckets * 8

    @property
    def n_text_bytes(self) -> int:
        return self.blob_size

    def sweep(self, held: cython.const[int64_t][::1]) -> None:
        """Forget every code that is not among these, and close the gaps in the bytes."""
        self.forget_verdicts()
        marks = np.zeros(self.n_codes + 1, np.uint8)
        marks[np.asarray(held)] = 1
        alive: uint8_t[::1] = marks
        total: int64_t = 0
        for i in range(self.n_codes):
            if self.entries[i].offset >= 0 and alive[i]:
                total += self.entries[i].length
        fresh: cython.pointer(cython.char) = cython.cast(cython.pointer(cython.char), malloc(total + 1024))
        if fresh == cython.NULL:
            raise MemoryError("no memory to sweep the string table")
        size: int64_t = 0
        for i in range(self.n_codes):
            if self.entries[i].offset < 0:
                continue
            if alive[i]:
                memcpy(fresh + size, self.blob + self.entries[i].offset, self.entries[i].length)
                self.entries[i].offset = size
                size += self.entries[i].length
            else:
                self.entries[i].offset = -1
                self.free_codes[self.n_free] = i
                self.n_free += 1
        free(self.blob)
        self.blob = fresh
        self.blob_size = size
        self.blob_capacity = total + 1024
        wanted: int64_t = 64
        while wanted < 4 * (self.n_codes - self.n_free):
            wanted *= 2
        if not self.rebuild_buckets(wanted):
            raise MemoryError("no memory to sweep the string table")

    # -- functions of the expression language --------------------------------------------------------------------------

    def room(self, length):
        if length > self.scratch_capacity:
            if not reallocate(cython.address(self.scratch), self.scratch_capacity, 2 * length):
                return cython.NULL
            self.scratch_capacity = 2 * length
        return self.scratch

    def compare(self, a, b):
        """Order by code point, which is the order of UTF-8 bytes: negative, 0 or positive."""
        if a == b:
            return 0
        la: int64_t = self.entries[a].length
        lb: int64_t = self.entries[b].length
        order: cython.int = memcmp(self.blob + self.entries[a].offset, self.blob + self.entries[b].offset, min(la, lb))
        if order != 0:
            return order
        return -1 if la < lb else 1

    def concat(self, a, b):
        la: int64_t = self.entries[a].length
        lb: int64_t = self.entries[b].length
        text: cython.pointer(cython.char) = self.room(la + lb + 1)
        if text == cython.NULL:
            return -1
        memcpy(text, self.blob + self.entries[a].offset, la)
        memcpy(text + la, self.blob + self.entries[b].offset, lb)
        return self.add(text, la + lb, la + lb)

    def length(self, code):
        """Code points, not bytes."""
        text: cython.pointer(cython.char) = self.blob + self.entries[code].offset
        n: int64_t = 0
        for i in range(self.entries[code].length):
            if not continues(text[i]):
                n += 1
        return n

    def substring(self, code, position, length):
        """Spark's substring: counted from 1, from the end if negative; 0 counts as 1."""
        n: int64_t = self.length(code)
        first: int64_t = position - 1 if position > 0 else (n + position if position < 0 else 0)
        if length <= 0 or first >= n:
            return self.add(self.blob, 0, 0)
        # Positions and lengths may be any 64-bit number; neither sum can overflow as they are written here.
        last: int64_t = (n if length > n - first else first + length) if first >= 0 else min(n, first + length)
        if last <= 0:
            return self.add(self.blob, 0, 0)
        if first < 0:
            first = 0
        text: cython.pointer(cython.char) = self.blob + self.entries[code].offset
        size: int64_t = self.entries[code].length
        begin: int64_t = 0
        for _ in range(first):
            begin = next_point(text, begin, size)
        end: int64_t = begin
        for _ in range(first, last):
            end = next_point(text, end, size)
        return self.add(text + begin, end - begin, size - begin)

    def decoded(self, code):
        raw: bytes = self.blob[self.entries[code].offset : self.entries[code].offset + self.entries[code].length]
        return raw.decode("utf-8", "replace")

    def change_case(self, code, upper):
        size: int64_t = self.entries[code].length
        text: cython.pointer(cython.char) = self.room(size + 1)
        if text == cython.NULL:
            return -1
        memcpy(text, self.blob + self.entries[code].offset, size)
        for i in range(size):
            if cython.cast(cython.uchar, text[i]) >= 0x80:
                return change_case_unicode(self, code, upper)
            if upper and 97 <= text[i] <= 122:
                text[i] -= 32
            elif not upper and 65 <= text[i] <= 90:
                text[i] += 32
        return self.add(text, size, size)

    def verdicts_of(self, pattern):
        """What the pattern says of every code there is; NULL when memory is out. Another pattern's moves it."""
        i: int64_t = 0
        while i < self.n_verdicts and self.verdicts[i].pattern != pattern:
            i += 1
        if i == self.n_verdicts:
            size: int64_t = i * cython.sizeof(Verdicts)
            if not reallocate(cython.address(self.verdicts), size, size + cython.sizeof(Verdicts)):
                return cython.NULL
            self.verdicts[i] = Verdicts(pattern=pattern, known=cython.NULL, capacity=0)
            self.n_verdicts += 1
        if self.verdicts[i].capacity < self.n_codes:
            before: int64_t = self.verdicts[i].capacity
            if not reallocate(cython.address(self.verdicts[i].known), before, self.capacity):
                return cython.NULL
            memset(self.verdicts[i].known + before, 0, self.capacity - before)
            self.verdicts[i].capacity = self.capacity
        return cython.address(self.verdicts[i])

    def forget_verdicts(self):
        """Codes that are given out again stand for other texts."""
        for i in range(self.n_verdicts):
            free(self.verdicts[i].known)
        free(self.verdicts)
        self.verdicts = cython.NULL
        self.n_verdicts = 0

    def like(self, text, pattern):
        """SQL's LIKE over the whole text: % any characters, _ one code point, \\ takes the next character as it is."""
        t: cython.pointer(cython.char) = self.blob + self.entries[text].offset
        p: cython.pointer(cython.char) = self.blob + self.entries[pattern].offset
        n: int64_t = self.entries[text].length
        m: int64_t = self.entries[pattern].length
        i: int64_t = 0
        j: int64_t = 0
        # After a mismatch, the last % takes one more code point; earlier ones never need to be tried again.
        retry_i: int64_t = -1
        retry_j: int64_t = -1
        while i < n:
            if j < m and p[j] == 37:
                retry_i = i
                j += 1
                retry_j = j
                continue
            if j < m and p[j] == 95:
                i = next_point(t, i, n)
                j += 1
                continue
            # Behind the last backslash nothing is left to escape: it means itself.
            width = 2 if j + 1 < m and p[j] == 92 else 1
            if j < m and p[j + width - 1] == t[i]:
                i += 1
                j += width
                continue
            if retry_j < 0:
                return False
            i = retry_i = next_point(t, retry_i, n)
            j = retry_j
        while j < m and p[j] == 37:
            j += 1
        return j == m


def change_case_unicode(table, code, upper):
    # Unicode's case tables are Python's; only texts beyond ASCII come here.
    with cython.gil:
        text: str = table.decoded(code)
        changed: bytes = (text.upper() if upper else text.lower()).encode()
        data: cython.pointer(cython.const[cython.char]) = changed
        result = table.add(data, len(changed), len(changed))
    return result
