"""Says which call of a program fails: the program has fault.so loaded and maps the box (tests/torture/fault.h).

    box = Box(path)
    box.arm(KINDS.index("alloc"), 7)  # the seventh allocation from now on
    subprocess.run(program, env=box.env())
    print(box.failed())
"""
import mmap
import os
import struct

KINDS = ("alloc", "map", "open", "stat", "read", "write", "sync", "truncate", "rename", "thread", "accept", "recv", "send")

SIGNAL = len(KINDS) + 1  # for arm(): none fails, the process is interrupted before its k-th call


class Box:
    """struct fault_box."""

    SIZE, KIND, K, CALLS, FAILED, LIVE = 168, 4, 16, 24, 152, 160

    def __init__(self, path):
        self.path = path
        with open(path, "wb") as f:
            f.write(bytes(self.SIZE))
        with open(path, "r+b") as f:
            self.map = mmap.mmap(f.fileno(), self.SIZE)

    def env(self):
        """The environment of a program that is to have the box."""
        return {**os.environ, "LD_PRELOAD": os.environ["FAULT_OBJECT"], "FAULT_BOX": self.path}

    def arm(self, kind=len(KINDS), k=0, lasting=False):
        self.disarm()
        self.map[self.CALLS:self.LIVE] = bytes(self.LIVE - self.CALLS)
        struct.pack_into("<II", self.map, self.KIND, kind, lasting)
        struct.pack_into("<Q", self.map, self.K, k)
        struct.pack_into("<I", self.map, 0, 1)

    def disarm(self):
        struct.pack_into("<I", self.map, 0, 0)

    def calls(self):
        return struct.unpack_from("<%dQ" % len(KINDS), self.map, self.CALLS)

    def caught(self):
        """Armed with SIGNAL: calls before the program caught SIGINT, and since."""
        return struct.unpack_from("<2Q", self.map, self.CALLS + 8 * 14)

    def failed(self):
        return struct.unpack_from("<Q", self.map, self.FAILED)[0]

    def live(self):
        return struct.unpack_from("<q", self.map, self.LIVE)[0]
