import gc
import os

import pytest

from lbd.load import process_table, procfs

STAT = (
    b"cpu  1 2 4 8 16 32 64 128 256 512\ncpu0 9 9 9 9 9 9 9\nintr 5 0 0\nctxt 9\nbtime 1\n"
    b"processes 7\n"
    b"procs_running 12\nprocs_blocked 3\nsoftirq 1 2\n"
)


def test_running_and_blocked():
    assert procfs.running_and_blocked(STAT) == (12, 3)


def test_waiting_and_time_stolen_by_other_machines_do_not_count_as_busy():
    assert procfs.busy_ticks(STAT) == 1 + 2 + 4 + 32 + 64
    assert procfs.machine_cpu_s() > 0


def test_ticks_of_each_processor_that_we_may_use():
    stat = (
        b"cpu  70 20 90 3000 4 0 6 8 2 0\n"
        b"cpu0 30 10 30 1000 0 0 2 0 2 0\n"
        b"cpu1 20 10 30 1000 4 1 2 8 9 9\n"  # the last two: guests' time, within user and nice
        b"cpu3 20 0 30 1000 0 0 2 0 0 0\n"  # 2 is offline
        b"intr 77 0 1\nprocs_running 3\n"
    )
    assert procfs.ticks_taken(stat, {1, 2, 3}) == {1: 71, 3: 52}


@pytest.mark.parametrize("name", [b"sh", b"a b", b"x) R 1 (y", b")"])
def test_a_command_name_cannot_deceive_the_parser(name):
    tail = (
        b" S 41 43 42 34816 -1 4194304 10 0 0 0 7 5 9 4 20 0 3 0 9876 1000 20 18446744073709551615"
    )
    task = process_table.parse_task(b"77 (" + name + b")" + tail)
    assert task == process_table.TaskStat(b"S", 41, 12, 3, 9876, 42, 34816, 13)
    assert task.cpu_s == 25 / procfs.TICKS_PER_S


@pytest.mark.parametrize("line", [b"", b"77 (sh", b"77 (sh) S 1 2"])
def test_a_truncated_line_is_an_error(line):
    with pytest.raises((ValueError, IndexError)):
        process_table.parse_task(line)


def test_our_own_process():
    task = process_table.task_of(os.getpid())
    assert task is not None
    assert task.parent == os.getppid()
    assert b"R" in process_table.thread_states(os.getpid())


def test_a_process_that_is_gone_is_none():
    assert process_table.task_of(2**22 + 1) is None
    assert process_table.thread_states(2**22 + 1) == []


def test_a_file_held_open_may_outgrow_its_buffer(tmp_path):
    path = tmp_path / "stat"
    path.write_bytes(b"x" * 100)
    held = procfs.HeldFile(str(path), 64)
    assert len(held.read()) == 100
    path.write_bytes(b"y" * 10)
    assert held.read() == b"y" * 10
    held.close()


def test_psi_stall():
    text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1234567\nfull avg10=0 total=5\n"
    assert procfs.psi_stall_us(text) == 1234567


def test_a_held_file_is_closed_with_its_last_reader(tmp_path):
    """Readers are made anew whenever settings are reloaded."""
    path = tmp_path / "stat"
    path.write_text("x")
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        assert procfs.HeldFile(str(path), 10).read() == b"x"
    held = procfs.HeldFile(str(path), 10)
    held.close()
    held.close()
    with pytest.raises(OSError, match="Bad file"):
        held.read()
    with pytest.raises(FileNotFoundError):
        procfs.HeldFile(str(tmp_path / "none"), 10)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before
