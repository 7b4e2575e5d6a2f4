"""From when on the accounting is complete, and which algorithms were in force."""

import contextlib
import time

import pytest

from lbd.config.schema import StatsConfig
from lbd.lbm.usage import algorithms
from lbd.lbm.usage.store import PastJobs, UsageStore
from tests.unit.lbm.usage.test_store import NOW, usage


@pytest.fixture
def open_store(tmp_path):
    with contextlib.ExitStack() as opened:

        def open_it(**config):
            store = UsageStore(tmp_path / "usage.sqlite", StatsConfig(**config))
            opened.callback(store.close)
            return store

        yield open_it


def test_a_new_file_records_when_it_was_created_whatever_is_added(open_store):
    store = open_store()
    made = store.kept_since()
    assert NOW <= made <= time.time()
    store.add([usage(finished=NOW - 100.0), usage()])
    store.close()
    assert open_store().kept_since() == made


def test_dropping_jobs_to_make_room_moves_the_start(open_store):
    store = open_store(max_rows=100)
    made = store.kept_since()
    store.add([usage(finished=made + number) for number in range(1, 111)])
    assert store.kept_since() == made + 10.0
    assert store.latest(PastJobs(1000))[0][-1][1].finished == made + 11.0


def test_expired_jobs_are_older_than_a_record_that_has_just_begun(open_store):
    store = open_store(keep_days=1)
    store.add([usage(finished=NOW - 200_000.0)])
    assert store.kept_since() >= NOW
    assert store.latest(PastJobs(10)) == ([], False)


def test_algorithms_are_recorded_when_they_change(open_store, monkeypatch):
    monkeypatch.setattr(algorithms, "KEPT", 3)
    store = open_store()
    for unix_s, name in enumerate(("NOLB", "NOLB", "GLOBAL", "LOWEST", "LOWEST", "NOLB")):
        store.note_algorithm(name, float(unix_s))
    store.close()
    assert open_store().algorithms(10) == [(2.0, "GLOBAL"), (3.0, "LOWEST"), (5.0, "NOLB")]
    assert open_store().algorithms(1) == [(5.0, "NOLB")]
