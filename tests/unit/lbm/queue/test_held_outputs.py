"""Outputs of which a process of their user holds a descriptor, or the lock."""

import asyncio
import os
import subprocess
import threading
import time

import pytest

from lbd.keeper import protocol as keeper
from lbd.lbm.keeper_link import end_holders
from lbd.lbm.queue import spool_room
from lbd.lbm.queue.output_file import owner_of, punch_hole
from lbd.process.disk_space import Shortage
from tests.unit.lbm.queue.test_spool_room import (
    ANN,
    BOB,
    KIB,
    LIMIT_BYTES,
    Attempts,
    care_of,
    keep,
    room,
    spool,
)

__all__ = ("spool",)  # the fixture


def may_write(uid, path):
    """Returns whether this user can open it for writing by a descriptor kept with O_PATH."""
    descriptor = os.open(path, os.O_PATH)
    become = ["setpriv", "--reuid", str(uid), "--clear-groups"]
    opens = [*become, "sh", "-c", f"exec 3>>/proc/self/fd/{descriptor}"]
    done = subprocess.run(opens, pass_fds=(descriptor,), stderr=subprocess.DEVNULL)
    os.close(descriptor)
    return done.returncode == 0


async def test_of_what_was_lost_nothing_is_left_to_its_user(spool):
    """Some file systems have unlimited room for a file's attributes; and it must not be
    reopened."""
    keep(spool, "10", ANN, 512 * KIB)
    path = spool.output("10", 1)
    try:
        os.setxattr(path, "user.more", bytes(1024))
    except OSError:
        pytest.skip("this file system has no attributes of users")
    assert may_write(ANN, path)
    await room(spool, 1 << 40)
    assert "user.more" not in os.listxattr(path)
    assert owner_of(path) == ANN
    assert not may_write(ANN, path)


async def test_who_holds_the_lock_of_a_file_that_is_to_go_takes_nobody_elses(spool, monkeypatch):
    """By a long write, on a descriptor that a process has kept."""
    keep(spool, "10", ANN, 2048 * KIB)
    keep(spool, "11", BOB, 1024 * KIB)
    over = threading.Event()
    monkeypatch.setattr(spool_room, "drop", lambda *_, **__: over.wait() and False)
    try:
        assert not (await room(spool, 1 << 40))[BOB]
    finally:
        over.set()


async def test_who_holds_the_lock_of_their_output_holds_up_nobody(spool):
    """Any process that writes to it does, for as long as it makes that write last: by gigabytes at
    a time, or by a page that is never answered. Punching a hole needs that lock."""
    for job, uid in (("1", BOB), ("2", ANN)):
        keep(spool, job, uid, 3 * LIMIT_BYTES)
    over, inode = threading.Event(), os.stat(spool.output("2", 1)).st_ino

    def punch(descriptor, first, size):
        if os.fstat(descriptor).st_ino == inode:
            over.wait()
        punch_hole(descriptor, first, size)

    spool.holes.punch_hole = punch
    care = care_of(spool, Attempts(["1", "2"]), lambda _: Shortage(-1, 0))
    try:
        for _ in range(2):
            await asyncio.wait_for(care.look(), 60)
        assert os.stat(spool.output("1", 1)).st_blocks * 512 <= LIMIT_BYTES
        assert os.stat(spool.output("2", 1)).st_blocks * 512 >= 3 * LIMIT_BYTES
        assert spool.calls.is_under_way(ANN, ("2", 1))
        assert not spool.calls.is_under_way(BOB, ("1", 1))
    finally:
        over.set()


async def test_who_lets_nothing_be_taken_back_ends_while_the_disk_is_short(spool, monkeypatch):
    keep(spool, "2", ANN, 3 * LIMIT_BYTES)
    over, attempts = threading.Event(), Attempts(["2"])
    spool.holes.punch_hole = lambda *_: over.wait()
    monkeypatch.setattr(spool_room, "STUCK_S", 1e-9)
    try:
        await care_of(spool, attempts, lambda _: Shortage(1, 0)).look()
        assert attempts.ended == [("2", 1)]
    finally:
        over.set()


@pytest.mark.parametrize("holds", [True, False])
async def test_who_writes_on_to_the_output_of_an_attempt_that_has_ended_is_ended(spool, holds):
    """The disk would be full again and again, for as long as they like."""
    descriptor = spool.open("10", 1, "out", ANN)
    os.write(descriptor, bytes(2 * LIMIT_BYTES))
    os.fsync(descriptor)
    if not holds:
        os.close(descriptor)
    attempts = Attempts([])
    await care_of(spool, attempts, lambda _: Shortage(1 << 40, 0)).look()
    assert attempts.written == ({ANN: [spool.output("10", 1)]} if holds else {})
    assert spool.quick.loses(ANN) == holds
    if holds:
        os.close(descriptor)


async def test_who_keeps_still_before_each_look_has_written_since_the_last(spool, monkeypatch):
    now_s = 1000.0
    monkeypatch.setattr(spool_room, "clock_s", lambda: now_s)
    descriptor = spool.open("10", 1, "out", ANN)
    attempts = Attempts([])
    care = care_of(spool, attempts, lambda _: Shortage(1 << 40, 0))
    try:
        for _ in range(2):
            os.write(descriptor, bytes(2 * LIMIT_BYTES))
            still_s = time.time() - 1.5 * spool_room.WRITTEN_S
            os.utime(spool.output("10", 1), (still_s, still_s))
            assert attempts.written == {}  # as long as it is unknown when the disk became short
            await care.look()
            now_s += spool_room.ROOM_EVERY_S + 1
        assert attempts.written == {ANN: [spool.output("10", 1)]}
    finally:
        os.close(descriptor)


async def test_who_closes_what_they_have_written_to_loses_what_else_they_hold(spool):
    descriptors = [spool.open(job, 1, "out", ANN) for job in ("10", "11", "12")]
    for job in ("10", "11", "12"):
        spool.ended(job, 1)
    attempts = Attempts([])
    os.write(descriptors[0], bytes(2 * LIMIT_BYTES))
    for descriptor in descriptors[:2]:
        os.close(descriptor)
    try:
        await care_of(spool, attempts, lambda _: Shortage(1 << 40, 0)).look()
        assert attempts.written == {ANN: [spool.output("10", 1), spool.output("12", 1)]}
        assert spool.quick.loses(ANN)
    finally:
        os.close(descriptors[2])


async def test_a_user_whose_attempt_has_printed_that_much_itself_is_no_such_user(spool):
    descriptor = spool.open("10", 1, "out", ANN)
    os.write(descriptor, bytes(2 * LIMIT_BYTES))
    os.close(descriptor)
    spool.ended("10", 1)
    attempts = Attempts([])
    await care_of(spool, attempts, lambda _: Shortage(1 << 40, 0)).look()
    assert attempts.written == {}
    assert not spool.quick.loses(ANN)


async def test_what_an_attempt_has_left_goes_while_the_next_one_of_its_job_runs(spool):
    """Otherwise a process that has kept a descriptor could fill the disk while that runs."""
    descriptor = spool.open("10", 1, "out", ANN)
    os.write(descriptor, bytes(2 * LIMIT_BYTES))
    attempts = Attempts([])
    attempts.held_names = lambda: {"10.2"}
    try:
        await care_of(spool, attempts, lambda _: Shortage(1 << 40, 0)).look()
        assert attempts.written == {ANN: [spool.output("10", 1)]}
        assert not os.stat(spool.output("10", 1)).st_blocks
    finally:
        os.close(descriptor)


async def test_however_many_there_are_the_order_is_one_that_the_keeper_reads():
    """The keeper would hang up at a longer one, and end everybody's commands."""
    said = []

    class Link:
        async def say(self, frame):
            said.append(frame)

    await end_holders(Link(), ANN, [f"/spool/{at}/{at}.1.out" for at in range(1_000_000)])
    assert len(said[0]) < keeper.ORDER_LIMIT_BYTES
