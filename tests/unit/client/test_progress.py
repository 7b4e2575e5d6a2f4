"""A line on a terminal that is erased before anything else is printed."""

import contextlib
import os

from lbd.client.progress import Progress, has_terminal

MARK = b"\0all"


@contextlib.contextmanager
def terminal():
    """Makes standard error a terminal; yields a function that reads what was written to it."""
    master, slave = os.openpty()
    kept = os.dup(2)
    os.dup2(slave, 2)

    def read():
        """Reads all of it: the kernel may deliver it in pieces, a moment later."""
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


def test_no_line_is_shown_behind_an_unfinished_line():
    with terminal() as read:
        progress = Progress(is_on=True)
        progress.printed(b"half a line")
        progress.show("1/2 done")
        progress.printed(b" and its end\n")
        progress.show("2/2 done")
        assert read() == b"\r\x1b[K2/2 done"


def test_without_a_terminal_nothing_is_shown():
    with terminal() as read:
        progress = Progress(is_on=False)
        progress.show("1/2 done")
        progress.clear()
        os.write(2, b"end")
        assert read() == b"end"


def test_whether_standard_error_is_a_terminal(capfd):
    assert not has_terminal()
