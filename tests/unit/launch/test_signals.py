"""What a process ignores, as /proc shows it."""

import os
import signal

import pytest

from lbd.launch import signals


@pytest.mark.parametrize("first_bytes", [signals.STATUS_BYTES, 64])
def test_what_a_process_ignores_is_found_however_long_its_status_is(monkeypatch, first_bytes):
    """The groups come before it, and somebody may be in thousands."""
    monkeypatch.setattr(signals, "STATUS_BYTES", first_bytes)
    before = signal.signal(signal.SIGUSR2, signal.SIG_IGN)
    try:
        assert signals.ignored_by(os.getpid()) >> signal.SIGUSR2 - 1 & 1
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert not signals.ignored_by(os.getpid()) >> signal.SIGUSR2 - 1 & 1
