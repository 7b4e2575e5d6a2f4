"""Files that queued commands take along, on disk: durable, found again, and removed in time."""

import asyncio
import json
import os
import time
import tracemalloc

import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import (
    FILES_BYTES,
    ID_BYTES,
    NOTE_FILE_BYTES,
    Note,
    PackRoom,
    PackStore,
    disk_bytes,
)
from lbd.lbm.staging.sweep import remove_old, sweep
from tests.unit.until import until

DAY_S = 86400.0


def pack(store, data=b"pack"):
    name, descriptor = store.create()
    os.write(descriptor, data)
    store.finish(name, descriptor)
    os.close(descriptor)
    return name


def note(name, first=1, count=3, fetch=("b.%a",), **more):
    return Note(name, "1ed9e4", first, count, 1000, 0o22, "/w/\udcff", ["a"], [*fetch], **more)


def age(store, name, days):
    for path in store.root.glob(name + "*"):
        then_s = time.time() - days * DAY_S
        os.utime(path, (then_s, then_s))


def test_a_pack_has_its_name_only_when_it_is_complete(tmp_path):
    store = PackStore(str(tmp_path))
    name, descriptor = store.create()
    os.write(descriptor, b"half")
    assert not store.path(name).exists()
    store.finish(name, descriptor)
    os.close(descriptor)
    assert PackStore(str(tmp_path)).path(name).read_bytes() == b"half"
    assert [path.name for path in store.root.iterdir()] == [f"{name}.pack"]


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc/passwd", "0" * 31, "G" * 32])
def test_an_invalid_name_is_not_opened(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        PackStore(str(tmp_path)).path(name)


def test_notes_are_found_again_and_damaged_ones_skipped(tmp_path):
    store = PackStore(str(tmp_path))
    assert store.resumed() == ([], [])
    name = pack(store)
    written = note(name, over=[2])
    store.write(written)
    assert PackStore(str(tmp_path)).resumed()[0] == [written]
    assert [*written.left] == [1, 3]
    written.end(1)
    assert ([*written.left], written.is_left(1), written.is_over) == ([3], False, False)
    for job in (3, 3, 4, 0):
        written.end(job)
    assert written.is_over


UNREADABLE = {
    "cut off": "{",
    "no note": "[1]",
    "deep": "[" * 100_000,
    "fields of a later release": {"later": 1},
    "another's": {"name": "0" * 32},
    "a long array": {"count": 10**15},
    "a number that is none": {"first": "1"},
    "names that are none": {"fetch": [7]},
    "none at all": {"send": None},
    "jobs that are none": {"over": ["1"]},
}


@pytest.mark.parametrize("text", UNREADABLE.values(), ids=UNREADABLE)
def test_a_note_that_cannot_be_read_keeps_no_lbm_from_starting(text, tmp_path, caplog):
    """Some of these raised what ends the LBM, again and again; others were skipped in silence."""
    store = PackStore(str(tmp_path))
    good, bad = pack(store), pack(store)
    store.write(note(good))
    whole = {**json.loads(note(bad).stored()), **text} if isinstance(text, dict) else text
    bad_text = whole if isinstance(whole, str) else json.dumps(whole)
    (store.root / f"{bad}.note").write_text(bad_text)
    assert [one.name for one in store.resumed()[0]] == [good]
    assert caplog.text.count("cannot read the notes of 1 submissions") == 1
    assert f"{bad}.note" in caplog.text


def test_a_note_that_is_larger_than_any_can_be_is_not_read(tmp_path, caplog):
    store = PackStore(str(tmp_path))
    store.root.mkdir()
    with (store.root / ("0" * 32 + ".note")).open("w") as file:
        file.truncate(NOTE_FILE_BYTES + 1)
    assert store.resumed() == ([], [])
    assert "larger than any note" in caplog.text


def test_no_note_is_larger_than_what_is_counted_for_it():
    sent, noted = ["\1\udcff" * 2000] * 2000, "\ufffd" * 50_000
    longest = Note("0" * 32, "1ed9e4", 10**8, 100_000, 0, 0, "/", sent, ["\0"], noted=noted)
    for job in range(10**8, 10**8 + 99_999):
        longest.end(job)
    most = disk_bytes(map(os.fsencode, (*sent, "/")), len(noted)) + ID_BYTES * 100_000
    assert len(longest.stored()) <= most < NOTE_FILE_BYTES


def test_notes_of_jobs_that_are_over_take_no_memory_in_the_next_lbm(tmp_path):
    """All were read at once and kept: 135 of them took 750 MB."""
    store = PackStore(str(tmp_path))
    names = [pack(store) for _ in range(40)]
    for name in names:
        store.write(note(name, fetch=["x" * 1000] * 1000, over=None))
    size = (store.root / f"{names[0]}.note").stat().st_size
    tracemalloc.start()
    notes, taken = PackStore(str(tmp_path)).resumed()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (notes, peak < 5 * size) == ([], True)
    of_notes = {(name, taken) for name, _, taken in taken if name.endswith(".note")}
    assert of_notes == {(f"{name}.note", size) for name in names}  # their disk counts


def test_of_a_note_that_is_over_and_without_outputs_its_user_and_its_age_stay(tmp_path):
    """With their names notes took 6 MB each for a week, and no job of theirs was left."""
    store = PackStore(str(tmp_path))
    name = pack(store)
    own = note(name, fetch=[])
    store.write(own)
    for job in (1, 2, 3):
        own.end(job)
    store.write(own)
    assert json.loads((store.root / f"{name}.note").read_text()) == {"uid": 1000}
    assert PackStore(str(tmp_path)).resumed() == ([], [(name, 1000, FILES_BYTES + 4)])
    assert store.closed(name) is None
    remove_old(store, 7, 90, set())
    assert store.names() == {name}
    age(store, name, 8)
    remove_old(store, 7, 90, set())
    assert store.names() == set()


def test_a_note_with_outputs_is_found_once_more_when_its_jobs_are_over(tmp_path):
    """For `lbctl requeue`."""
    store = PackStore(str(tmp_path))
    own = note(pack(store), waited_for=True)
    for job in (1, 2, 3):
        own.end(job)
    store.write(own)
    found = PackStore(str(tmp_path)).closed(own.name)
    assert found == note(own.name, over=None)
    found.begin(2)
    found.begin(4)
    assert ([*found.left], found.has_ended(1), found.has_ended(2)) == ([2], True, False)
    store.write(found)
    assert [[*one.left] for one in store.resumed()[0]] == [[2]]
    for name in ("0" * 32, "../x", ""):
        assert store.closed(name) is None


def test_an_end_that_comes_while_a_note_is_written_is_what_stays(tmp_path, monkeypatch):
    """The job was brought home again after a restart."""
    store = PackStore(str(tmp_path))
    own = note(pack(store), count=1)
    stored = Note.stored

    def ends_meanwhile(self):
        text = stored(self)
        self.end(1)
        return text

    monkeypatch.setattr(Note, "stored", ends_meanwhile)
    store.write(own)
    assert PackStore(str(tmp_path)).resumed()[0] == []


def test_what_is_removed_and_when(tmp_path):
    store = PackStore(str(tmp_path))
    ended, recent, waits, unknown, lately = (pack(store) for _ in range(5))
    for name in (ended, recent, waits):
        store.write(note(name))
    for name, days in ((ended, 8), (recent, 6), (waits, 99), (unknown, 91), (lately, 8)):
        age(store, name, days)
    for _ in range(2):
        remove_old(store, 7, 90, {waits})
        left = {path.name for path in store.root.iterdir()}
        assert left == {
            *(f"{name}{suffix}" for name in (recent, waits) for suffix in (".pack", ".note")),
            f"{lately}.pack",
        }
    store.drop(recent)
    assert not list(store.root.glob(recent + "*"))


async def test_notes_of_a_ledger_that_is_gone_go_in_the_end(tmp_path):
    """They take room and memory of their user's."""
    store, notes = PackStore(str(tmp_path)), OpenNotes()
    old, young, ours = (note(pack(store)) for _ in range(3))
    for one in (old, young, ours):
        store.write(one)
        notes[one.name] = one
        store.memory.keep_note(one)
    for one in (old, ours):
        age(store, one.name, 91)
    ours.ledger = "0123"
    for ledger, left in (("", 3), ("0123", 2)):
        notes.ledger = ledger
        sweeping = asyncio.create_task(sweep(store, notes, DispatchConfig()))
        await until(lambda left=left: len(store.names()) == len(notes) == left)
        await asyncio.sleep(0)
        sweeping.cancel()
    assert notes.keys() == store.names() == {young.name, ours.name}
    assert old.name not in store.memory._packs


def test_one_user_leaves_room_for_the_packs_of_others():
    """Each pack was bounded, but not their number: the daemons' disk became full, where the queue's
    ledger may be as well."""
    disk, taken, room = 1 << 40, 0, PackRoom()
    for number in range(10_000):
        size = min(room.left(1001, disk - taken), 1 << 30)
        room.take(f"{number}", 1001, size)
        taken += size
    assert taken <= disk // 2
    other = room.left(1002, disk - taken)
    assert disk // 5 < other < disk // 2
    room.take("another", 1002, other)
    taken += other
    assert room.left(1001, disk - taken) == 0
    room.drop("0")
    assert room.left(1001, disk // 2) > 0


def test_what_is_being_packed_counts_as_all_that_it_may_become(tmp_path):
    room = PackRoom()
    room.take("a", 1001, 100)
    assert room.left(1001, 300) == 100
    room.take("a", 1001, 10)  # it was less
    assert room.left(1001, 300) == 145
    room.keep({"b"})  # and was removed
    assert room.left(1001, 300) == 150
    room.drop("a")
    assert room.left(1001, 300) == 150


def test_a_starting_lbm_knows_whose_packs_are_there(tmp_path):
    store = PackStore(str(tmp_path))
    name = pack(store)
    store.write(note(name))
    store.write(note("f" * 32))  # its pack is gone
    found = PackStore(str(tmp_path))
    notes, taken = found.resumed()
    sizes = {path.name: path.stat().st_size for path in found.root.iterdir()}
    assert dict(one[::2] for one in taken) == {
        name: FILES_BYTES + sizes[f"{name}.pack"],
        f"{name}.note": sizes[f"{name}.note"],
        f"{'f' * 32}.note": sizes[f"{'f' * 32}.note"],
    }
    assert {one[1] for one in taken} == {1000}
    assert found.names() == {name, "f" * 32}
    found.hold(notes, taken)
    held = sum(one[2] for one in taken)
    assert found.room.left(1000, held + 100) == 50
    found.keep({name})
    assert found.room.left(1000, held) > 0
    found.drop(name)
    assert (found.room._packs, found.memory._packs) == ({}, {})
    assert found.free_bytes() > 0
