"""Room on the spool's disk: the user with the most output there loses the oldest."""

import ctypes
import logging
import os
import stat
from types import SimpleNamespace

import pytest

from lbd.lbm.queue.kept_outputs import kept_in
from lbd.lbm.queue.logs import output_of
from lbd.lbm.queue.output_file import empty, owner_of
from lbd.lbm.queue.spool import Spool
from lbd.lbm.queue.spool_room import (
    SpoolCare,
    limits_of_running,
    make_room,
    too_quick,
)
from lbd.net.gen import dispatch_pb2 as pb
from lbd.process.disk_space import Shortage, shortage_of

KIB = 1 << 10
ANN, BOB = 64001, 64002
LIMIT_BYTES = 256 * KIB


@pytest.fixture
def spool(tmp_path):
    if os.geteuid():
        pytest.skip("the output of several users is kept apart by a privileged LBM alone")
    spool = Spool(str(tmp_path), LIMIT_BYTES)
    keep(spool, "9", ANN, 0)
    if owner_of(spool.output("9", 1)) != ANN:
        pytest.skip("this file system has no access lists")
    os.unlink(spool.output("9", 1))
    return spool


def keep(spool, job, uid, size_bytes, name="out"):
    descriptor = spool.open(job, 1, name, uid)
    os.write(descriptor, os.urandom(size_bytes))
    os.fsync(descriptor)  # otherwise its blocks are not counted yet
    os.close(descriptor)


def job_of(kept):
    return kept.attempt.partition(".")[0]


def sizes(spool):
    found = {}
    for one in kept_in(spool.root):
        found[job_of(one)] = found.get(job_of(one), 0) + os.stat(one.path).st_size
    return {job: size for job, size in found.items() if size}


async def room(spool, wanted_bytes, running=(), floor_bytes=LIMIT_BYTES):
    return (await make_room(spool, Shortage(wanted_bytes, 0), floor_bytes, running, {})).lost


async def test_who_keeps_most_loses_the_oldest_of_it(spool):
    for job in ("10", "11", "12", "1013"):
        keep(spool, job, ANN, 512 * KIB)
    keep(spool, "1", BOB, 512 * KIB)
    assert (await room(spool, 800 * KIB)).keys() == {ANN}
    assert sizes(spool).keys() == {"12", "1013", "1"}
    piece = spool.read("10", 1, "out", 0)
    assert (piece.data, piece.cut) == (b"", False)


async def test_who_reads_what_was_dropped_for_room_is_told_so(spool):
    """It was said that it may be incomplete because the disk was full while the job ran."""
    keep(spool, "10", ANN, 512 * KIB)
    keep(spool, "10", ANN, 0, "err")
    await room(spool, 1 << 40)
    attempts = SimpleNamespace(spool=spool, alive=lambda *_: False)
    asked = pb.LogsRequest(job="10", attempt=1)
    (piece,) = [one async for one in output_of(attempts, "h2", asked)]
    assert piece.trouble == "its output was removed, because the disk was nearly full"
    assert not piece.cut


async def test_what_is_left_beside_what_was_dropped_is_read_first(spool):
    keep(spool, "10", ANN, 512 * KIB)
    keep(spool, "10", ANN, 8 * KIB, "err")
    await room(spool, 512 * KIB)
    attempts = SimpleNamespace(spool=spool, alive=lambda *_: False)
    asked = pb.LogsRequest(job="10", attempt=1)
    pieces = [one async for one in output_of(attempts, "h2", asked)]
    assert [(len(one.error), bool(one.trouble), one.cut) for one in pieces] == [
        (8 * KIB, False, False),
        (0, True, False),
    ]


async def test_an_empty_output_is_not_said_to_have_been_removed(spool):
    keep(spool, "10", ANN, 0)
    empty(spool.output("10", 1), ANN)
    assert not spool.was_dropped("10", 1)


async def test_nobody_loses_output_within_the_limit_of_one_attempt(spool):
    keep(spool, "10", ANN, 128 * KIB)
    keep(spool, "11", BOB, 512 * KIB)
    await room(spool, 1 << 40)
    assert sizes(spool).keys() == {"10"}


async def test_running_jobs_keep_their_output(spool):
    keep(spool, "10", ANN, 512 * KIB)
    keep(spool, "11", ANN, 512 * KIB)
    await room(spool, 1 << 40, running={"10.1"})
    assert sizes(spool).keys() == {"10"}


async def test_what_was_lost_is_still_counted_and_lost_again_if_it_grows(spool):
    """A process may have kept a descriptor of it, so its file must remain known."""
    descriptor = spool.open("10", 1, "out", ANN)
    for _ in range(2):
        os.write(descriptor, bytes(512 * KIB))
        os.fsync(descriptor)
        assert (await room(spool, 1 << 40))[ANN] >= 256 * KIB
        assert os.fstat(descriptor).st_blocks == 0
    os.close(descriptor)


async def test_packs_count_and_are_removed_too(spool):
    descriptor = spool.open_pack("10", 1, ANN)
    os.write(descriptor, bytes(512 * KIB))
    os.fsync(descriptor)
    os.close(descriptor)
    if owner_of(str(spool.pack("10", 1))) != ANN:
        pytest.skip("this file system has no attributes of users")
    assert (await room(spool, 1 << 40)).keys() == {ANN}
    assert not spool.pack("10", 1).exists()


async def test_where_files_are_short_files_go(spool):
    for job in range(10, 20):
        keep(spool, str(job), ANN, 1)
    keep(spool, "1", BOB, 1)
    dropped = await make_room(spool, Shortage(0, 5), LIMIT_BYTES, (), {})
    assert dropped.lost == {ANN: 5}
    assert sizes(spool).keys() == {"1", *map(str, range(15, 20))}


def test_a_disk_with_room_is_left_alone(tmp_path):
    assert not shortage_of(tmp_path, 0)
    assert not shortage_of(tmp_path / "none")


class Attempts:
    def __init__(self, running):
        self.running, self.ended, self.written = running, [], {}

    async def end_holders(self, uid, paths):
        self.written[uid] = paths

    def end(self, job, attempt):
        self.ended.append((job, attempt))

    def begun(self):
        return [(job, 1) for job in self.running]

    def held_names(self):
        return {f"{job}.1" for job in self.running}

    def alive(self, *_):
        return True


def care_of(spool, attempts, shortage):
    return SpoolCare(spool, 1.0, attempts, attempts.end_holders, shortage)


async def test_while_it_is_short_the_attempts_of_a_user_share_what_one_may_print(spool, caplog):
    for job in ("10", "11", "12", "13"):
        keep(spool, job, ANN, 256 * KIB)
    keep(spool, "1", BOB, 256 * KIB)
    begun = [(job, 1) for job in ("1", "10", "11", "12", "13")]
    owners = {key: owner_of(spool.output(*key)) for key in begun}
    limits = limits_of_running(owners, LIMIT_BYTES)
    assert sorted(limits.values()) == [64 * KIB] * 4 + [256 * KIB]
    keep(spool, "2", ANN, 256 * KIB)
    caplog.set_level(logging.WARNING)
    short = lambda _: Shortage(1 << 40, 0)  # noqa: E731
    await care_of(spool, Attempts([job for job, _ in begun]), short).look()
    assert f"dropped output of user {ANN}" in caplog.text
    kept = {job_of(one): one.size_bytes for one in kept_in(spool.root)}
    assert kept["2"] == 0
    assert kept["1"] >= 256 * KIB
    assert all(kept[job] <= 72 * KIB for job in ("10", "11", "12", "13"))
    marked = os.stat(spool.output("2", 1)).st_mode
    assert marked & stat.S_ISVTX


def take(path, size_bytes):
    """Takes more of the disk, while the length of the file stays the same."""
    with open(path, "rb+") as file:
        where = ctypes.c_longlong(0), ctypes.c_longlong(size_bytes)
        if ctypes.CDLL(None).fallocate(file.fileno(), 1, *where):
            pytest.skip("no fallocate here")


@pytest.mark.parametrize("is_short", [True, False])
async def test_who_takes_the_disk_beyond_what_they_print_ends_while_it_is_short(spool, is_short):
    keep(spool, "1", BOB, KIB)
    keep(spool, "2", ANN, KIB)
    take(spool.output("2", 1), 8 << 20)
    attempts = Attempts(["1", "2"])
    short = lambda _: Shortage(int(is_short), 0)  # noqa: E731
    await care_of(spool, attempts, short).look()
    assert attempts.ended == ([("2", 1)] if is_short else [])


MIB = 1 << 20
TIGHT = Shortage(-4 * MIB, 0, 16 * MIB)  # 20 MiB are free, 16 must be


def test_on_a_small_disk_the_outputs_of_a_user_take_half_of_what_is_to_be_free_there():
    assert TIGHT.of_user(256 * MIB) == 8 * MIB
    assert TIGHT.of_user(KIB) == KIB
    assert Shortage(1, 0).of_user(KIB) == KIB


@pytest.mark.parametrize(
    ("short", "printed", "expected"),
    [
        (TIGHT, [(ANN, 6 * MIB)], set()),  # half of what is there above 8 MiB
        (TIGHT, [(ANN, 6 * MIB + 1)], {ANN}),
        (TIGHT, [(ANN, 3 * MIB), (ANN, 4 * MIB), (BOB, KIB)], {ANN}),
        (TIGHT, [(ANN, 4 * MIB), (BOB, 4 * MIB)], {ANN, BOB}),
        (Shortage(16 * MIB, 0, 16 * MIB), [(ANN, 2 * MIB)], set()),  # full, but not because of that
        (Shortage(16 * MIB, 0, 16 * MIB), [(ANN, 2 * MIB + 1)], {ANN}),
        (Shortage(-(1 << 40), 0, 2 << 30), [(ANN, 1 << 30)], set()),
        (Shortage(0, 0), [(ANN, 1 << 40)], set()),  # a file system that does not report its size
    ],
)
def test_the_user_who_prints_most_is_too_fast_if_the_room_may_not_last(short, printed, expected):
    assert too_quick(printed, short) == expected


@pytest.fixture
def care(spool):
    """Returns the care for a tight disk on which BOB's job 1 and ANN's job 2 run."""
    spool.holes.limit_bytes = 1 << 30
    keep(spool, "1", BOB, KIB)
    keep(spool, "2", ANN, 12 * MIB)  # before the first look, which may be a long time
    care = care_of(spool, Attempts(["1", "2"]), lambda _: care.shortage)
    care.shortage, care.attempts = TIGHT, care._attempts
    return care


def print_more(spool, job, size_bytes):
    with open(spool.output(job, 1), "ab") as file:
        file.write(bytes(size_bytes))


async def print_for(seconds, care, spool):
    for _ in range(seconds):
        print_more(spool, "1", 32 * KIB)
        print_more(spool, "2", 7 * MIB)
        await care.look()


async def test_who_fills_a_disk_quicker_than_it_is_freed_loses_what_does(spool, care):
    await care.look()
    await print_for(1, care, spool)
    assert care.attempts.ended == []
    await print_for(1, care, spool)
    assert care.attempts.ended == [("2", 1)]
    assert "it printed more than fits" in spool.ended("2", 1)


async def test_room_is_made_for_the_output_expected_until_the_next_look(spool, care):
    await care.look()
    assert sizes(spool)["2"] == 12 * MIB
    await print_for(1, care, spool)
    kept = {job_of(one): one.size_bytes for one in kept_in(spool.root)}
    assert kept["2"] <= 6 * MIB + 64 * KIB


@pytest.mark.parametrize("after", ["it runs", "it has ended"])
async def test_a_hole_that_an_output_ends_with_is_not_printed(spool, care, after):
    """ftruncate(2) takes nothing of the disk, so nobody should lose an output for it."""
    keep(spool, "10", BOB, 2 << 20)
    care.shortage = Shortage(-(64 << 20), 0, 2 << 20)  # far from short
    spool.holes.limit_bytes = LIMIT_BYTES
    await care.look()
    before = {
        job_of(one): one.size_bytes for one in kept_in(spool.root) if job_of(one) in ("1", "10")
    }
    for _ in range(2):
        os.truncate(spool.output("2", 1), 1 << 43)
        if after == "it has ended":
            keep(spool, "11", ANN, KIB)
            os.truncate(spool.output("11", 1), 1 << 43)
            spool.ended("11", 1)
        care._room_due_s = 0.0
        await care.look()
        os.truncate(spool.output("2", 1), 0)
    kept = {job_of(one): one.size_bytes for one in kept_in(spool.root)}
    assert kept.items() >= before.items()
    assert (care.attempts.ended, spool.quick.until_s) == ([], {})


async def test_what_was_cut_out_of_an_output_was_printed_all_the_same(spool, care):
    spool.holes.limit_bytes = LIMIT_BYTES
    await care.look()
    for _ in range(2):
        print_more(spool, "2", 7 * MIB)
        await care.look()
        assert os.stat(spool.output("2", 1)).st_blocks * 512 < MIB
    assert spool.quick.until_s.keys() == {ANN}


async def test_a_burst_is_not_too_fast(spool, care):
    await care.look()
    for _ in range(2):
        await print_for(1, care, spool)
        await care.look()
    assert care.attempts.ended == []


async def test_many_short_attempts_are_as_quick_as_one_long(spool, care):
    await care.look()
    for second in range(2):
        for number in range(7):
            job = f"1{second}{number}"
            keep(spool, job, ANN, MIB)
            spool.ended(job, 1)
        await care.look()
    assert spool.quick.until_s.keys() == {ANN}
    assert care.attempts.ended == []


async def test_of_who_was_too_quick_nothing_is_kept_for_a_while(spool, care):
    await care.look()
    await print_for(2, care, spool)
    keep(spool, "21", BOB, KIB)
    for name in ("out", "err"):
        os.close(spool.open("20", 1, name, ANN))
    with pytest.raises(OSError, match="Invalid"):  # not a file of ours
        keep(spool, "20", ANN, KIB)
    assert "20" not in sizes(spool)
    assert "21" in sizes(spool)
    assert "may be incomplete" in spool.ended("20", 1)
    spool.quick.until_s[ANN] = 0.0
    keep(spool, "22", ANN, KIB)
    assert "22" in sizes(spool)
