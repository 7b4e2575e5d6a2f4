import threading

import pytest

from lbd.config.schema import LoadConfig
from lbd.load import sampler as kernel
from lbd.load import scopes
from lbd.load.reading_thread import UNTAKEN_MAX, ReadingThread
from lbd.load.sampler import Sampler
from lbd.testing.fake_scope import FakeScope


class File:
    """Numbers its readings; `seen` is set after `enough` of them."""

    def __init__(self, enough):
        self.enough, self.count, self.seen = enough, 0, threading.Event()

    def read(self):
        self.count += 1
        if self.count == self.enough:
            self.seen.set()
        return b"%d" % self.count


def test_what_was_read_is_taken_once_and_in_order():
    file = File(enough=3)
    thread = ReadingThread(file.read, lambda: 0.001)
    thread.start()
    assert file.seen.wait(60)
    thread.end()
    assert not thread.is_alive()
    taken = thread.take()
    assert taken == [b"%d" % number for number in range(1, file.count + 1)]
    assert thread.take() == []


def test_readings_that_nobody_takes_are_bounded():
    file = File(enough=UNTAKEN_MAX + 5)
    thread = ReadingThread(file.read, lambda: 0.0)
    thread.start()
    assert file.seen.wait(60)
    thread.end()
    assert len(thread.take()) == UNTAKEN_MAX


def test_a_long_pause_does_not_hold_up_the_end():
    thread = ReadingThread(lambda: b"", lambda: 1e6)
    thread.start()
    thread.end()
    assert not thread.is_alive()


def test_the_threads_readings_of_a_window_are_averaged(monkeypatch):
    sampler = host_sampler()
    sampler.start()
    try:
        assert sampler.reads_itself
        monkeypatch.setattr(sampler._thread, "take", lambda: [stat(3, 0), stat(5, 2)])
        reading = sampler.read(1.0)
    finally:
        sampler.end()
    assert (reading.queues.cpu, reading.queues.io) == (3.0, 1.0)  # without the task that reads
    assert sampler.readings == 2


def test_without_a_thread_each_call_reads(monkeypatch):
    def refuse(_self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sampler = host_sampler()
    sampler.start()
    assert not sampler.reads_itself
    assert [sampler.read(at_s) is None for at_s in (0.5, 0.9, 1.0)] == [True, True, False]
    assert sampler.readings == 3
    sampler.end()


def test_a_scope_that_scans_is_read_by_the_caller():
    sampler = Sampler(LoadConfig(), 2.0, FakeScope(scans=True), now_s=0.0)
    sampler.start()
    assert not sampler.reads_itself


@pytest.mark.parametrize("rest", ["", "softirq " + " ".join(["18446744073709551615"] * 11) + "\n"])
def test_the_end_of_the_file_is_enough(rest):
    whole = b"cpu 1 2 3\nintr " + b"12345 " * 1000 + b"\n" + stat(7, 3) + rest.encode()
    assert scopes.HostScope("").counts(whole[-kernel.procfs.RUNNING_BYTES :]).running == 6


def host_sampler():
    return Sampler(LoadConfig(), 2.0, scopes.HostScope("for a test"), now_s=0.0)


def stat(running, blocked):
    return b"procs_running %d\nprocs_blocked %d\n" % (running, blocked)
