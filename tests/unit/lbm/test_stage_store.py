"""What queued commands take along, on disk: durable, found again, and removed in time."""

import os
import time

import pytest

from lbd.lbm.stage_store import Note, StageStore

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


def test_a_pack_is_there_under_its_name_only_when_it_is_finished(tmp_path):
    store = StageStore(str(tmp_path))
    name, descriptor = store.create()
    os.write(descriptor, b"half")
    assert not store.path(name).exists()
    store.finish(name, descriptor)
    os.close(descriptor)
    assert StageStore(str(tmp_path)).path(name).read_bytes() == b"half"
    assert [path.name for path in store.root.iterdir()] == [f"{name}.pack"]


@pytest.mark.parametrize("name", ["", "..", "../x", "/etc/passwd", "0" * 31, "G" * 32])
def test_what_is_no_name_is_not_opened(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        StageStore(str(tmp_path)).path(name)


def test_notes_are_found_again_and_damaged_ones_passed_over(tmp_path):
    store = StageStore(str(tmp_path))
    assert list(store.notes()) == []
    name = pack(store)
    written = note(name, over=[2])
    store.write(written)
    (store.root / ("0" * 32 + ".note")).write_text("{")
    (store.root / ("1" * 32 + ".note")).write_text('{"name": 1}')
    assert list(StageStore(str(tmp_path)).notes()) == [written]
    assert written.left == {1, 3}


def test_what_is_removed_when(tmp_path):
    store = StageStore(str(tmp_path))
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
