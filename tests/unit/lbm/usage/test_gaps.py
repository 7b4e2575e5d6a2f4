"""What the accounting lacks: it is bounded, counted and outlives the LBM."""

import sqlite3

import pytest

from lbd.lbm.usage import backlog as kept
from lbd.lbm.usage import gaps
from lbd.lbm.usage.backlog import Backlog
from lbd.lbm.usage.gap_file import BYTES, GapFile, content_of, gap_in
from lbd.lbm.usage.gaps import Gap, gap_of, joined
from tests.unit.lbm.usage.test_store import NOW, open_store, usage  # noqa: F401  # a fixture


def test_gaps_are_joined():
    assert joined(None, None) is None
    assert joined(Gap(1, 5.0, 6.0), None, Gap(2, 1.0, 2.0)) == Gap(3, 1.0, 6.0)
    assert gap_of([]) is None
    assert gap_of([4.0, 2.0, float("nan")]) == Gap(3, 0.0, 4.0)


def test_the_oldest_gaps_become_one_and_none_is_forgotten(open_store):  # noqa: F811
    store = open_store()
    for number in range(gaps.KEPT + 10):
        store.add([], Gap(1, float(number), number + 0.5))
    found = store.gaps()
    assert found[0] == Gap(11, 0.0, 10.5)
    assert len(found) == gaps.KEPT
    assert sum(gap.commands for gap in found) == gaps.KEPT + 10


def test_a_gap_is_recorded_together_with_the_commands(open_store):  # noqa: F811
    store = open_store()
    with pytest.raises(OverflowError):
        store.add([usage(uid=1 << 64)], Gap(1, NOW, NOW))
    assert store.gaps() == []
    store.add([usage()], Gap(1, NOW, NOW))
    store.close()
    assert store.gaps() == [Gap(1, NOW, NOW)]


@pytest.mark.parametrize(("bound", "most"), [("KEPT_MAX", 3), ("KEPT_BYTES", 3 * 520)])
def test_what_waits_in_memory_is_bounded(monkeypatch, bound, most):
    monkeypatch.setattr(kept, bound, most)
    backlog = Backlog()
    for number in range(5):
        backlog.add(usage(finished=float(number)))
    assert [one.finished for one in backlog.first(9)] == [0.0, 1.0, 2.0]
    assert backlog.lost == Gap(2, 3.0, 4.0)
    assert backlog.kept() == Gap(3, 0.0, 2.0, not_yet=True)
    assert backlog.in_danger() == Gap(5, 0.0, 4.0)
    backlog.written(2)
    assert (backlog.lost, backlog.is_empty) == (None, False)
    for number in (5, 6):
        backlog.add(usage(finished=float(number)))
    assert (backlog.lost, len(backlog.first(9))) == (None, 3), "there is room again"
    backlog.written(3)
    assert backlog.is_empty


def test_a_full_disk_drops_no_job(open_store, monkeypatch):  # noqa: F811
    """A tenth was dropped with each attempt, though that helps nobody while the disk is full."""
    store = open_store()
    store.add([usage() for _ in range(100)])

    def no_room(*_):
        problem = sqlite3.OperationalError("database or disk is full")
        problem.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise problem

    with monkeypatch.context() as full:
        full.setattr(store, "_add", no_room)
        with pytest.raises(sqlite3.OperationalError):
            store.add([usage() for _ in range(1000)])
    assert store.summary(0.0, "")[0].jobs == 100


def test_the_file_is_overwritten_in_place(tmp_path):
    path = tmp_path / "usage.gap"
    file = GapFile(path)
    assert file.read() is None
    file.write(None)
    inode, size = path.stat().st_ino, path.stat().st_size
    file.write(Gap(3, NOW, NOW + 1.0))
    assert (path.stat().st_ino, path.stat().st_size, size) == (inode, BYTES, BYTES)
    assert path.stat().st_mode & 0o777 == 0o600
    found = GapFile(path).read()
    assert (found.commands, found.since) == (3, pytest.approx(NOW, abs=0.001))
    file.write(None)
    assert GapFile(path).read() is None
    GapFile(tmp_path / "no" / "usage.gap").write(Gap(3, NOW, NOW))


def test_a_gap_of_any_size_fits():
    gap = Gap(1 << 40, 99999999999.0, 99999999999.0)
    assert len(content_of(gap)) == BYTES
    assert gap_in(content_of(gap)) == gap


@pytest.mark.parametrize(
    "content",
    [b"", b"3", b"x y z", b"-1 1 2", b"0 0 0", b"3 2 1", b"3 nan nan", b"3 0 inf", b"3 0 1e12",
     b"9999999999999 1 2", b"\xff 1 2", b"3 -1 2"],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_no_gap(content):
    assert gap_in(content) is None
