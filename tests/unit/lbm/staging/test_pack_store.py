"""Files that queued commands take along, on disk: durable, found again, and removed in time."""

import json
import os
import time

import pytest

from lbd.lbm.staging.pack_store import Note, PackRoom, PackStore

DAY_S = 86400.0


def pack(store, data=b"pack"):
    name, descriptor = store.create()
    os.write(descriptor, data)
    store.finish(name, descriptor)
    os.close(descriptor)
    return name


def note(name, first=1, count=3, **more):
    return Note(name, first, count, 1000, 0o22, "/w/\udcff", ["a"], ["b.%a"], **more)


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
    assert list(store.notes()) == []
    name = pack(store)
    written = note(name, over=[2])
    store.write(written)
    (store.root / ("0" * 32 + ".note")).write_text("{")
    (store.root / ("1" * 32 + ".note")).write_text('{"name": 1}')
    assert list(PackStore(str(tmp_path)).notes()) == [written]
    assert [*written.left] == [1, 3]
    written.end(1)
    assert ([*written.left], written.is_left(1), written.is_over) == ([3], False, False)
    for job in (3, 3, 4, 0):
        written.end(job)
    assert written.is_over
    assert json.loads(written.stored())["over"] == [1, 2, 3]


def test_what_is_removed_and_when(tmp_path):
    store = PackStore(str(tmp_path))
    ended, recent, waits, unknown, lately = (pack(store) for _ in range(5))
    for name in (ended, recent, waits):
        store.write(note(name))
    for name, days in ((ended, 8), (recent, 6), (waits, 99), (unknown, 91), (lately, 8)):
        age(store, name, days)
    for _ in range(2):
        store.sweep(7, 90, {waits})
        left = {path.name for path in store.root.iterdir()}
        assert left == {
            *(f"{name}{suffix}" for name in (recent, waits) for suffix in (".pack", ".note")),
            f"{lately}.pack",
        }
    store.drop(recent)
    assert not list(store.root.glob(recent + "*"))


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
    assert found.resumed()[1] == [(name, 1000, found.path(name).stat().st_size)]
    assert found.names() == {name, "f" * 32}
    assert found.free_bytes() > 0
