"""A file system whose file answers only its user: like a FUSE of that user's own, or a file server
that is down."""

import contextlib
import ctypes
import os
import select
import struct
import threading

IN_HEADER = struct.Struct("=IIQQIII4x")
OUT_HEADER = struct.Struct("=IiQ")
LOOKUP, FORGET, GETATTR, OPEN, READ, WRITE, RELEASE, FLUSH, INIT, OPENDIR, ACCESS, INTERRUPT = (
    1, 2, 3, 14, 15, 16, 18, 25, 26, 27, 34, 36
)  # fmt: skip
ROOT, FILE = 1, 2
ENOSYS = 38
ASYNC_READ = 1
READ_AHEAD_BYTES = 1 << 17
MNT_DETACH = 2
POLL_MS = 50
NAME = "file"


def attributes(node):
    mode = 0o040755 if node == ROOT else 0o100666
    return struct.pack("=6Q3I7I", node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


class HungFiles:
    """`where`/file can be opened, and `uid` may stat it. Reads and writes never end; for other
    users no operation ends."""

    def __init__(self, where, uid, *, killable=False, admits=True, closes=True):
        """With `killable` a process that waits for the file can be killed; with `admits=False` no
        process ever gets `where` as its working directory; with `closes=False` no close of the file
        ends, so a process that has it open, close-on-exec, hangs in exec: **then newer kernels hold
        up whoever reads its /proc/PID/stat**, be it `ps`, so it must not be long."""
        silent = [ACCESS] * (not admits) + [FLUSH] * (not closes)
        self._silent = (FORGET, INTERRUPT, READ, WRITE, *silent)
        self.where, self.uid = os.fspath(where), uid
        self._ahead = (READ_AHEAD_BYTES, ASYNC_READ) if killable else (0, 0)
        self.asked = []  # requests that were never answered: (operation, uid)
        self.path = os.path.join(self.where, NAME)
        self._over = threading.Event()
        self._libc = ctypes.CDLL(None, use_errno=True)

    def __enter__(self):
        self._device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._device},rootmode=40000,user_id=0,group_id=0,allow_other"
        if self._libc.mount(b"hung", self.where.encode(), b"fuse", 0, options.encode()):
            os.close(self._device)
            raise OSError(ctypes.get_errno(), "mount of a FUSE")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def left_to_parent(self):
        """In a forked child: so that what waits for an answer does not keep this alive."""
        os.close(self._device)

    def stop(self):
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join(10)
        os.close(self._device)  # pending requests fail now
        self._libc.umount2(self.where.encode(), MNT_DETACH)

    def _serve(self):
        requests = select.poll()  # select() takes no descriptor above 1,023
        requests.register(self._device, select.POLLIN)
        with contextlib.suppress(OSError):
            while not self._over.is_set():
                if not requests.poll(POLL_MS):
                    continue
                request = os.read(self._device, 1 << 18)
                _, operation, unique, node, uid, _, _ = IN_HEADER.unpack_from(request)
                answer = self._answer(operation, node, uid)
                if isinstance(answer, int):
                    os.write(self._device, OUT_HEADER.pack(OUT_HEADER.size, -answer, unique))
                elif answer is not None:
                    size = OUT_HEADER.size + len(answer)
                    os.write(self._device, OUT_HEADER.pack(size, 0, unique) + answer)
                elif operation not in (FORGET, INTERRUPT):
                    self.asked.append((operation, uid))

    def _answer(self, operation, node, uid):
        """The reply as bytes, an errno, or None for no reply ever."""
        if operation in self._silent:
            return None
        if operation == INIT:
            return struct.pack("=4I2H2I2H8I", 7, 31, *self._ahead, 8, 6, 4096, 1, 1, 0, *[0] * 8)
        if node == FILE and uid != self.uid and operation != RELEASE:
            return None
        if operation == LOOKUP:
            return struct.pack("=4Q2I", FILE, 1, 0, 0, 0, 0) + attributes(FILE)
        if operation == GETATTR:
            return struct.pack("=Q2I", 0, 0, 0) + attributes(node)
        if operation in (OPEN, OPENDIR):
            return struct.pack("=Q2I", 0, 0, 0)
        return b"" if operation in (RELEASE, FLUSH) else ENOSYS
