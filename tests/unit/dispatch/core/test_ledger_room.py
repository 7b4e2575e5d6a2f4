"""No user fills the ledger's disk, and nobody takes what existing jobs need."""

from dataclasses import replace

import pytest

from lbd.dispatch.core.ledger_room import RESERVE_BYTES_MAX, Disk, LedgerRoom, OnRecord
from lbd.dispatch.core.ledger_rows import ROW_BYTES, Submission

MIB, GIB = 1 << 20, 1 << 30
LIMIT = 100 * GIB


def filled(room, user, origin, disk, size_bytes=MIB):
    """Returns how much one user has on record in the end, who submits until refused."""
    taken = 0
    while not room.why_not(user, origin, size_bytes, LIMIT, Disk(disk[0] - taken, disk[1])):
        room.take(user, origin, size_bytes)
        taken += size_bytes
    return taken


def test_a_user_leaves_as_much_as_they_have():
    room, size = LedgerRoom(), 1000 * MIB
    first = filled(room, "eve", "h1", (size, size))
    assert first == pytest.approx((size - size // 20) / 2, abs=2 * MIB)
    left = size - first
    second = filled(room, "ann", "h2", (left, size))
    assert second == pytest.approx(first / 2, abs=2 * MIB)
    assert "eve's jobs take 475" in room.why_not("eve", "h3", MIB, LIMIT, Disk(left - second, size))


def test_the_users_of_one_host_leave_a_quarter():
    room, size = LedgerRoom(), 1000 * MIB
    free = size
    for number in range(50):
        free -= filled(room, f"u{number}", "h1", (free, size))
    assert size - free == pytest.approx(0.75 * 0.95 * size, abs=5 * MIB)
    assert "h1's jobs take" in room.why_not("new", "h1", MIB, LIMIT, Disk(free, size))
    assert not room.why_not("new", "h2", MIB, LIMIT, Disk(free, size))


def test_the_last_of_the_disk_is_for_the_jobs_that_are_there():
    room = LedgerRoom()
    full = Disk(RESERVE_BYTES_MAX, 100 * GIB, "/var/lib/lbd")
    assert room.why_not("ann", "h1", MIB, LIMIT, full).startswith("/var/lib/lbd is full, so the")
    assert not room.why_not("ann", "h1", MIB, LIMIT, Disk(RESERVE_BYTES_MAX + 3 * MIB, 100 * GIB))


def test_if_nothing_is_known_of_the_disk_only_the_limit_counts():
    room = LedgerRoom()
    assert not room.why_not("ann", "h1", 5 * MIB, 10 * MIB, None)
    assert "jobs take 0 " in room.why_not("ann", "h1", 6 * MIB, 10 * MIB, None)
    room.take("ann", "h1", 10 * MIB)
    assert "is full (dispatch.ledger_bytes is 10.0M)" in room.why_not(
        "bob", "h2", 1, 10 * MIB, None
    )


def test_the_size_that_the_ledger_reports_replaces_what_was_known():
    room = LedgerRoom()
    room.take("ann", "h1", 90 * GIB)
    room.counted([OnRecord(1, "ann", "h1", 3, 1 * GIB), OnRecord(2, "bob", "h1", 1, 2 * GIB)])
    assert not room.why_not("ann", "h1", 40 * GIB, LIMIT, None)
    assert room.ended_bytes(LIMIT, None) == LIMIT // 2
    assert room.ended_bytes(LIMIT, Disk(7 * GIB + RESERVE_BYTES_MAX, 100 * GIB)) == 5 * GIB


def test_few_ended_jobs_are_kept_on_a_disk_that_others_fill():
    """Half of them were dropped, some of which had ended seconds before: that made no room."""
    room, full = LedgerRoom(), Disk(0, GIB)
    room.take("ann", "h1", 1 << 20)
    assert room.ended_bytes(LIMIT, full) == full.reserve_bytes
    room.take("ann", "h1", GIB)
    assert room.ended_bytes(LIMIT, full) == (GIB + (1 << 20)) // 2
    assert room.ended_bytes(2 << 20, full) == 1 << 20, "nor more than half the limit"


def test_the_size_of_a_submission_on_record():
    empty = Submission("ann", 1000, "h1", "", b"", b"", count=0)
    assert empty.size_bytes == 0
    for more in (
        {"command": b"1234"}, {"spec": b"1234"}, {"name": "1234"}, {"key": "1234"},
        {"after": "1234"}, {"needs": "1234"},
    ):  # fmt: skip
        assert replace(empty, **more).size_bytes == 4
    assert replace(empty, count=3).size_bytes == 3 * ROW_BYTES
    assert replace(empty, count=3, excluded=("h1", "h2")).size_bytes == 3 * (ROW_BYTES + 5)


def test_it_is_full_for_everybody_once_no_small_submission_is_accepted():
    room = LedgerRoom()
    assert room.full(10 * MIB, Disk(RESERVE_BYTES_MAX + 4096, 100 * GIB)) == ""
    assert "is full, so" in room.full(10 * MIB, Disk(RESERVE_BYTES_MAX + 4095, 100 * GIB))
    assert "begins none; what runs goes on" in room.full(10 * MIB, Disk(MIB - 1, 100 * GIB))
    assert "those in it go on" in room.full(10 * MIB, Disk(MIB, 100 * GIB))
    room.take("ann", "h1", 10 * MIB)
    assert "ledger_bytes is 10.0M" in room.full(10 * MIB, None)
    assert room.full(11 * MIB, None) == ""
