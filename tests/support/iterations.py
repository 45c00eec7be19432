"""How much CPU time the iterations of a daemon's loop take, by iterations.c: a figure that says what a
daemon does, whatever else the machine is doing. Sanitized builds have no such library.

    with Iterations() as iterations: start a daemon with iterations.environment(); …; iterations.text()
"""

import mmap
import os
import struct
import tempfile

from servers import rdzvd_binary

KINDS = 400
KIND_MS = 0.25
SIZE = 8 * (2 + KINDS)


class Iterations:
    def __init__(self):
        self.library = os.path.join(os.path.dirname(os.path.abspath(rdzvd_binary())), "..", "tests",
                                    "libiterations.so")
        self.file = tempfile.NamedTemporaryFile(prefix="rdzv-iterations-")
        self.file.write(bytes(SIZE))
        self.file.flush()
        self.page = mmap.mmap(self.file.fileno(), SIZE)

    def environment(self):
        """Of the daemon; as it is when there is no library."""
        if not os.path.exists(self.library):
            return dict(os.environ)
        return dict(os.environ, LD_PRELOAD=self.library, ITERATIONS=self.file.name)

    def begin(self):
        """Forgets all before."""
        self.page[:SIZE] = bytes(SIZE)

    def longest(self):
        """In milliseconds; None without the library."""
        count, longest = struct.unpack("<QQ", self.page[:16])
        if count == 0 and os.path.exists(self.library):
            raise RuntimeError("%s counted no iteration: is its function the one that rdzvd waits in?" % self.library)
        return longest / 1e6 if count else None

    def over(self, ms):
        """How many took longer than that."""
        kinds = struct.unpack("<%dQ" % KINDS, self.page[16:SIZE])
        return sum(kinds[int(ms / KIND_MS):])

    def text(self):
        if self.longest() is None:
            return "iterations not counted"
        return "longest iteration %.1f ms, %d over 10 ms" % (self.longest(), self.over(10))

    def close(self):
        self.page.close()
        self.file.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
