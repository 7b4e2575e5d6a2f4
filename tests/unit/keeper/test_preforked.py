"""The keeper's spare children."""

import errno
import os
from types import SimpleNamespace

from lbd.keeper import preforked
from lbd.keeper.preforked import SHORT_MS, Spares


def test_where_no_process_can_be_had_the_keeper_does_not_try_without_a_pause(monkeypatch):
    """It tried three hundred times a second, with a new cgroup for each, while one user had all
    processes."""
    spares, forks = Spares(SimpleNamespace(), b""), []

    def fork(parent):
        forks.append(parent)
        if len(forks) < 3:
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return SimpleNamespace(pid=1)

    monkeypatch.setattr(preforked, "fork_spare", fork)
    assert spares.quiet_ms() == 0
    spares.fork_ahead()
    assert spares.quiet_ms() == SHORT_MS
    spares.fork_ahead()
    spares.fork_ahead()
    assert spares.quiet_ms() == 0
    assert len(forks) == 3
