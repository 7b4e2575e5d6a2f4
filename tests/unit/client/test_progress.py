"""A line on a terminal that is gone before anything else is printed."""

import contextlib
import os

from lbd.client.progress import Progress, has_terminal

MARK = b"\0all"


@contextlib.contextmanager
def terminal():
    """Standard error is one meanwhile; yields what reads what came there."""
    master, slave = os.openpty()
    kept = os.dup(2)
    os.dup2(slave, 2)

    def read():
        """All of it, though the kernel may pass it on in pieces, a moment later."""
        os.write(2, MARK)
        data = b""
        while not data.endswith(MARK):
            data += os.read(master, 4096)
        return data.removesuffix(MARK)

    try:
        yield read
    finally:
        os.dup2(kept, 2)
        for descriptor in (master, slave, kept):
            os.close(descriptor)


def test_a_line_is_shown_and_cleared():
    with terminal() as read:
        progress = Progress(is_on=True)
        progress.clear()  # there is nothing
        progress.show("1/2 done")
        progress.show("2/2 done " + "x" * 300)
        progress.clear()
        progress.clear()
        assert read() == (b"\r\x1b[K1/2 done\r\x1b[K2/2 done " + b"x" * 70 + b"\r\x1b[K")


def test_not_behind_a_line_that_has_no_end_yet():
    with terminal() as read:
        progress = Progress(is_on=True)
        progress.printed(b"half a line")
        progress.show("1/2 done")
        progress.printed(b" and its end\n")
        progress.show("2/2 done")
        assert read() == b"\r\x1b[K2/2 done"


def test_nothing_without_a_terminal():
    with terminal() as read:
        progress = Progress(is_on=False)
        progress.show("1/2 done")
        progress.clear()
        os.write(2, b"end")
        assert read() == b"end"


def test_whether_there_is_one(capfd):
    assert not has_terminal()
