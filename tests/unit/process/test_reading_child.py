"""Reads by a child with another account's rights, and when the child is given up."""

import os
import signal

import pytest

from lbd.load.process_table import task_of
from lbd.process import reading_child
from lbd.process.reading_child import Reading, read_in_child


@pytest.mark.parametrize("says", [b"", b"a byte"])
def test_a_child_that_hangs_is_given_up(tmp_path, monkeypatch, says):
    """As where a file server is gone, or in a file system of that account, even if it sends a
    little from time to time."""
    monkeypatch.setattr(reading_child, "LOOK_S", 0.05)
    hung, came = tmp_path / "pid", []

    def read(target):
        hung.write_text(str(os.getpid()))
        os.write(target, says)
        signal.pause()

    reading = read_in_child(read, came.append, 1.0)
    assert (reading.size_bytes, reading.is_stalled) == (len(says), True)
    assert b"".join(came) == says
    while (task := task_of(int(hung.read_text()))) is not None and not task.has_ended:
        os.sched_yield()


def test_a_silent_child_that_works_is_waited_for(monkeypatch):
    """For example one that copies a large ledger."""
    reader, writer = os.pipe()
    looks = []

    def works_on(child):
        looks.append(child)
        if len(looks) == 6:
            os.write(writer, b"!")
        return len(looks)

    def read(target):
        os.read(reader, 1)
        os.write(target, b"all of it")
        return 0

    came = []
    monkeypatch.setattr(reading_child, "cpu_ticks", works_on)
    assert read_in_child(read, came.append, 0.02) == Reading(9, False, 0, "")
    assert came == [b"all of it"]


def test_a_child_that_waits_for_a_person_is_not_given_up(monkeypatch):
    """As where its output is shown by a pager."""
    monkeypatch.setattr(reading_child, "cpu_ticks", lambda child: 0)
    clock = iter(range(1000))
    waits = []

    def put(data):
        waits.append(data)
        for _ in range(100):
            next(clock)

    def read(target):
        for _ in range(5):
            os.write(target, b"x")
            os.sched_yield()
        return 0

    monkeypatch.setattr(reading_child.time, "monotonic", lambda: float(next(clock)))
    assert read_in_child(read, put, 50.0) == Reading(5, False, 0, "")
    assert waits


def test_the_reason_for_its_failure_is_one_line():
    def no_file(target):
        os.open("/no/such\nfile", os.O_RDONLY)

    def raises(target):
        raise ValueError("two\nlines")

    def is_killed(target):
        os.kill(os.getpid(), signal.SIGKILL)

    said = "/no/such file: No such file or directory"
    assert read_in_child(no_file, bytes, 30.0) == Reading(0, False, 1, said)
    assert read_in_child(raises, bytes, 30.0) == Reading(0, False, 1, "two lines")
    assert read_in_child(is_killed, bytes, 30.0) == Reading(0, False, 1, "")
    assert read_in_child(lambda target: 3, bytes, 30.0) == Reading(0, False, 3, "")


def test_it_ends_with_the_process_it_reads_for(tmp_path):
    """As where `lbctl logs` is not read any further."""
    hung = tmp_path / "pid"

    def read(target):
        hung.write_text(str(os.getpid()))
        os.write(target, b"x")
        signal.pause()

    def put(data):
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        read_in_child(read, put, 30.0)
    while (task := task_of(int(hung.read_text()))) is not None and not task.has_ended:
        os.sched_yield()


def test_the_working_time_of_a_child_is_measured():
    if (child := os.fork()) == 0:
        while True:
            pass
    try:
        while not reading_child.cpu_ticks(child):
            os.sched_yield()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert reading_child.cpu_ticks(child) == 0
