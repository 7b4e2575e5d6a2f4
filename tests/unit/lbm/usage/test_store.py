"""The accounting on disk: its figures, its bounds, and what it does with a damaged file."""

import fnmatch
import logging
import math
import sqlite3
import time
from dataclasses import replace

import pytest

from lbd.config.schema import StatsConfig
from lbd.lbm.core.jobs import Job
from lbd.lbm.usage.log import slowdown
from lbd.lbm.usage.record import Usage, usage_of
from lbd.lbm.usage.store import GROUPS_MAX, PastJobs, UsageStore
from lbd.model import HostId, JobId, JobState

NOW = time.time()


def usage(response_s=2.0, cpu_s=1.0, **more):
    given = {
        "finished": NOW, "submitted": NOW - 2.0, "waiting_s": 0.5, "user": "ann", "command": "cc",
        "origin": "h1", "host": "h1", "failed": False, "moved": False, "wrong": False,
        "pinned": False, "state": "done", "uid": 1000,
    }  # fmt: skip
    return Usage(**{**given, "response_s": response_s, "cpu_s": cpu_s, **more})


@pytest.fixture
def open_store(tmp_path):
    opened = []

    def open_it(**config):
        opened.append(UsageStore(tmp_path / "usage.sqlite", StatsConfig(**config)))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def count(store, user=""):
    return store.summary(0.0, user)[0].jobs


class TestFigures:
    def test_as_computed_by_hand(self, open_store):
        store = open_store()
        store.add([
            usage(1.0, 0.5, moved=True, host="h2"),
            usage(2.0, 1.0, moved=True, wrong=True, host="h2", user="bob", failed=True),
            usage(6.0, None, command="sleep"),
        ])  # fmt: skip
        total, groups = store.summary(0.0, "")
        assert (total.jobs, total.failed, total.moved, total.wrong) == (3, 1, 2, 1)
        assert total.cpu_s == 1.5
        assert total.slot_s == 0.5 + 1.5 + 5.5
        assert (total.response.mean, total.response.sd) == (3.0, pytest.approx(math.sqrt(7.0)))
        assert (total.waiting.mean, total.waiting.sd) == (0.5, 0.0)
        # both waited as long as their size
        assert (total.slowdown.count, total.slowdown.mean) == (2, 1.0)
        assert total.response.percentile(0.5) == pytest.approx(2.0, rel=0.052)
        assert total.response.percentile(0.95) == pytest.approx(6.0, rel=0.052)
        assert total.waiting.percentile(0.95) == pytest.approx(0.5, rel=0.052)
        assert total.slowdown.percentile(0.5) == pytest.approx(1.0, rel=0.052)
        alone = groups["command"]["sleep"]
        assert (sum(alone.response.steps.values()), alone.slowdown.steps) == (1, {})
        jobs = {kind: {key: m.jobs for key, m in rows.items()} for kind, rows in groups.items()}
        assert jobs == {
            "command": {"cc": 2, "sleep": 1},
            "user": {"ann": 2, "bob": 1},
            "host": {"h2": 2, "h1": 1},
        }

    @pytest.mark.parametrize(("response_s", "cpu_s"), [(3.0, 1.0), (0.5, 1.0), (9.0, 0.009)])
    def test_slowdown_follows_the_formula(self, open_store, response_s, cpu_s):
        store = open_store()
        store.add([usage(response_s, cpu_s)])
        expected = slowdown(response_s, cpu_s)
        assert store.summary(0.0, "")[0].slowdown.mean == pytest.approx(expected, nan_ok=True)

    def test_slot_seconds_count_each_slot(self, open_store):
        store = open_store()
        store.add([usage(2.5, slots=4), usage(1.5, user="bob"), usage(None, waiting_s=None)])
        total, groups = store.summary(0.0, "")
        assert total.slot_s == 4 * 2.0 + 1.0
        assert {user: one.slot_s for user, one in groups["user"].items()} == {"ann": 8, "bob": 1}

    def test_figures_since_a_time_and_of_one_user(self, open_store):
        store = open_store()
        store.add([usage(finished=NOW - 100), usage(), usage(user="bob")])
        assert store.summary(NOW - 50, "")[0].jobs == 2
        assert store.summary(NOW - 50, "ann")[0].jobs == 1
        assert store.summary(0.0, "ann")[1]["user"].keys() == {"ann"}
        assert store.summary(0.0, "", until=NOW - 50)[0].jobs == 1

    def test_a_job_that_never_started_is_counted_and_has_no_times(self, open_store):
        store = open_store()
        store.add([usage(None, None, waiting_s=None, host="", failed=True), usage()])
        total, groups = store.summary(0.0, "")
        assert (total.jobs, total.failed, total.response.count) == (2, 1, 1)
        assert groups["host"].keys() == {"h1"}
        assert len(store.page(0.0, 0, 10)) == 1

    def test_groups_are_bounded(self, open_store):
        store = open_store()
        store.add([usage(command=f"c{number}") for number in range(GROUPS_MAX + 5)])
        total, groups = store.summary(0.0, "")
        assert (total.jobs, len(groups["command"])) == (GROUPS_MAX + 5, GROUPS_MAX)

    def test_a_page_continues_where_the_last_ended(self, open_store):
        store = open_store()
        store.add([usage(cpu_s=float(number)) for number in range(5)])
        first = store.page(0.0, 0, 3)
        rest = store.page(0.0, first[-1][0], 3)
        assert [job.cpu_s for _, job in (*first, *rest)] == [0.0, 1.0, 2.0, 3.0, 4.0]


class TestBounds:
    def test_the_number_of_rows_is_bounded(self, open_store):
        store = open_store(max_rows=10)
        for _ in range(5):
            store.add([usage() for _ in range(7)])
        assert count(store) == 10

    def test_the_bytes_are_bounded_by_dropping_the_oldest(self, open_store, tmp_path):
        limit = 1 << 19
        store = open_store(max_bytes=limit)
        for number in range(60):
            store.add([usage(cpu_s=float(number), command="c" * 200) for _ in range(100)])
        assert (tmp_path / "usage.sqlite").stat().st_size <= limit
        assert 0 < count(store) < 6000
        assert store.page(0.0, 0, 1)[0][1].cpu_s > 0.0  # the first are gone
        (number, _), *_ = store.page(0.0, 0, 1)
        assert store.page(0.0, number, 10_000)[-1][1].cpu_s == 59.0  # the last are there

    def test_the_limit_of_bytes_can_be_reduced(self, open_store, tmp_path):
        store = open_store()
        store.add([usage(command="c" * 250) for _ in range(6000)])
        store.close()
        smaller = open_store(max_bytes=1 << 19)
        smaller.add([usage(cpu_s=7.0)])
        smaller.close()
        assert (tmp_path / "usage.sqlite").stat().st_size <= 1 << 19

    def test_the_age_is_bounded(self, open_store):
        store = open_store(keep_days=1.0)
        store.add([usage(finished=NOW - 2 * 86400), usage()])
        assert count(store) == 1


@pytest.mark.parametrize("bound", [{"max_rows": 30}, {"max_bytes": 1 << 19}])
def test_who_has_most_makes_room(open_store, bound):
    """A user with a loop pushed everybody else's jobs off the record."""
    store = open_store(**bound)
    store.add([usage(user="bob", cpu_s=float(number)) for number in range(10)])
    for number in range(60):
        store.add([usage(cpu_s=float(number), command="c" * 200) for _ in range(100)])
    assert count(store, "bob") == 10
    assert 0 < count(store, "ann") < 6000
    assert store.page(0.0, 0, 10_000)[-1][1].cpu_s == 59.0  # the last are there


class TestTrouble:
    def test_only_its_owner_can_read_it(self, open_store, tmp_path):
        open_store().add([usage()])
        assert (tmp_path / "usage.sqlite").stat().st_mode & 0o777 == 0o600

    def test_it_survives_a_restart(self, open_store):
        open_store().add([usage()])
        assert count(open_store()) == 1

    @pytest.mark.parametrize("damage", ["garbage", "other-format", "cut-off"])
    def test_a_damaged_file_is_set_aside_with_a_line(self, open_store, tmp_path, caplog, damage):
        path = tmp_path / "usage.sqlite"
        if damage == "garbage":
            path.write_bytes(b"no database at all" * 100)
        elif damage == "other-format":
            with sqlite3.connect(path) as other:
                other.execute("CREATE TABLE jobs (x)")
            other.close()
        else:
            store = open_store()
            store.add([usage(command="c" * 200) for _ in range(500)])
            store.close()
            path.write_bytes(path.read_bytes()[:9000])
        with caplog.at_level(logging.WARNING, "lbd.lbm"):
            store = open_store()
            store.add([usage()])
        assert count(store) == 1
        assert (tmp_path / "usage.damaged").exists()
        assert [record.message.count("set aside") for record in caplog.records] == [1]

    @pytest.mark.parametrize("change", ["removed", "replaced"])
    def test_a_file_removed_while_open_is_started_again_with_a_line(
        self, open_store, tmp_path, caplog, change
    ):
        path, other = tmp_path / "usage.sqlite", tmp_path / "other"
        if change == "replaced":
            before = UsageStore(other, StatsConfig())
            before.add([usage(), usage()])
            before.close()
        store = open_store()
        store.add([usage()])
        if change == "replaced":
            other.replace(path)
        else:
            path.unlink()
        with caplog.at_level(logging.WARNING, "lbd.lbm"):
            store.add([usage()])
            store.add([usage()])
        expected = 4 if change == "replaced" else 2
        assert count(store) == count(open_store()) == expected
        assert [f"{change} by another process" in record.message for record in caplog.records] == [
            True
        ]

    @pytest.mark.parametrize("how", ["garbage", "one-of-ours", "emptied"])
    def test_a_file_overwritten_while_open_is_set_aside_as_it_is(
        self, open_store, tmp_path, caplog, how
    ):
        path = tmp_path / "usage.sqlite"
        store = open_store()
        store.add([usage(command="c" * 200) for _ in range(500)])
        other = UsageStore(tmp_path / "other", StatsConfig())
        other.add([usage()])
        other.close()
        ours = (tmp_path / "other").read_bytes()
        found = {"garbage": b"no database at all" * 9000, "one-of-ours": ours, "emptied": b""}[how]
        path.write_bytes(found)
        with caplog.at_level(logging.WARNING, "lbd.lbm"):
            store.add([usage(), usage()])
            assert count(store) == 2
        assert count(open_store()) == 2
        assert (tmp_path / "usage.damaged").read_bytes() == found
        assert ["overwritten by another process" in one.message for one in caplog.records] == [True]

    def test_a_question_notices_it_too(self, open_store, tmp_path):
        store = open_store()
        store.add([usage()])
        (tmp_path / "usage.sqlite").unlink()
        assert count(store) == 0

    def test_two_lbms_may_have_it_open_during_a_handover(self, open_store, caplog):
        first, second = open_store(), open_store()
        with caplog.at_level(logging.WARNING, "lbd.lbm"):
            for store in (first, second, first, second):
                store.add([usage()])
        assert (count(first), count(second), caplog.records) == (4, 4, [])

    def test_only_others_count_as_changing_it(self, open_store, caplog):
        """However much is written, dropped and checkpointed, it is the same file to us."""
        store = open_store(max_bytes=1 << 19)
        with caplog.at_level(logging.WARNING, "lbd.lbm"):
            for _ in range(60):
                store.add([usage(command="c" * 200) for _ in range(100)])
                count(store)
        assert caplog.records == []

    def test_an_unwritable_disk_is_reported(self, tmp_path):
        store = UsageStore(tmp_path / "nowhere/usage.sqlite", StatsConfig())
        with pytest.raises(OSError, match="No such file"):
            store.add([usage()])


def job(**more):
    given = {"submitted": 100.0, "host": HostId("h2"), "started": 101.0, "finished": 105.0,
             "state": JobState.DONE, "cpu_s": 3.0}  # fmt: skip
    command = (b"/usr/bin/gcc", b"-c", b"x.c")
    return Job(JobId("h1-1"), command, "ann", HostId("h1"), **{**given, **more})


class TestUsage:
    def test_the_slots_are_those_that_it_held(self, open_store):
        store = open_store()
        store.add([replace(usage_of(job(slots=2)), finished=NOW), usage(slots=3)])
        found = {row.slots for _, row in store.latest(PastJobs(10))[0]}
        assert found == {2, 3}

    def test_a_job_that_moved(self):
        found = usage_of(job())
        assert (found.waiting_s, found.response_s, found.cpu_s) == (1.0, 5.0, 3.0)
        assert (found.command, found.host, found.moved, found.failed) == (
            "gcc -c",
            "h2",
            True,
            False,
        )

    def test_an_attempt_that_stopped_at_a_checkpoint_has_not_failed(self, open_store):
        stopped = job(state=JobState.FAILED, exit_status=85, reason="checkpoint", foreign=True,
                      queued_at=HostId("h2"), queued_as="12")  # fmt: skip
        found = usage_of(stopped)
        assert (found.state, found.failed, found.id) == ("checkpoint", False, "12")
        assert usage_of(replace(stopped, queued_at=HostId(""))).state == "failed"
        store = open_store()
        store.add([replace(found, finished=NOW), usage()])
        assert count(store) == 1, "its job has not ended"
        assert {row.state for _, row in store.latest(PastJobs(10))[0]} == {"checkpoint", "done"}

    def test_a_job_that_never_started(self):
        found = usage_of(job(started=None, state=JobState.CANCELLED))
        assert (found.waiting_s, found.response_s, found.host) == (None, None, "")
        assert (found.moved, found.failed) == (False, True)

    def test_a_clock_set_back_gives_no_negative_times(self):
        found = usage_of(job(started=90.0, finished=95.0))
        assert (found.waiting_s, found.response_s) == (0.0, 0.0)

    @pytest.mark.parametrize("cpu_s", [float("inf"), float("nan"), -1.0, 1e308])
    def test_invented_records_of_another_host_are_not_recorded(self, cpu_s):
        assert usage_of(job(cpu_s=cpu_s)).cpu_s is None

    def test_for_a_queued_job_its_origin_counts(self):
        found = usage_of(job(queued_at=HostId("h2"), queued_as="3_5", foreign=True))
        assert (found.origin, found.moved, found.pinned) == ("h2", False, True)
        assert found.id == "3_5"


class TestPast:
    def test_few_patterns_are_kept(self, open_store):
        """fnmatch keeps 32,768 of them: of 22 KB each, they took 0.7 GB of each LBM."""
        store = open_store()
        store.add([usage()])
        kept = fnmatch._compile_pattern.cache_info().currsize
        for at in range(5):
            store.latest(PastJobs(1, name=f"[{chr(300 + at)}]"))
        assert fnmatch._compile_pattern.cache_info().currsize == kept

    @pytest.mark.parametrize("pattern", ["*a" * 127 + "*b", "*" * 255 + "b", "*?" * 127 + "b"])
    def test_no_pattern_takes_for_ever(self, open_store, pattern):
        store = open_store()
        store.add([usage(name="a" * 255)])
        assert store.latest(PastJobs(1, name=pattern))[0] == []

    def test_the_latest_jobs_come_first_a_page_at_a_time(self, open_store):
        store = open_store()
        store.add([usage(finished=NOW + at // 2, id=f"h1-{at}") for at in range(7)])
        found, before = [], (0.0, 0)
        while True:
            rows, more = store.latest(PastJobs(2, before=before))
            found += [row.id for _, row in rows]
            if not more:
                break
            before = rows[-1][1].finished, rows[-1][0]
        assert found == [f"h1-{at}" for at in (6, 5, 4, 3, 2, 1, 0)]

    def test_filters_are_applied(self, open_store):
        store = open_store()
        store.add([
            usage(id="1", name="a-1", state="failed", host="h2"),
            usage(id="2", name="a-2", state="done", user="bob"),
            usage(id="3", name="b", state="done", submitted=NOW - 100),
            usage(id="4", state="failed"),
        ])  # fmt: skip

        def ids(**which):
            return {row.id for _, row in store.latest(PastJobs(10, **which))[0]}

        assert ids(name="a-[!2]") == {"1"}
        assert ids(user="bob") == {"2"}
        assert ids(states=("failed",)) == {"1", "4"}
        assert ids(host="h2") == {"1"}
        assert ids(since=NOW - 50) == {"1", "2", "4"}
        assert ids(until=NOW - 50) == {"3"}
        assert ids(name="*" * 120 + "x") == set()

    @pytest.mark.parametrize("which", [PastJobs(9), PastJobs(9, user="ann")])
    def test_the_file_is_never_read_completely(self, open_store, tmp_path, which):
        open_store().add([usage()])
        conditions, values = which.in_sql()
        database = sqlite3.connect(tmp_path / "usage.sqlite")
        plan = database.execute(
            f"EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE {conditions} ORDER BY finished DESC",
            values,
        ).fetchall()
        database.close()
        assert not [step for *_, step in plan if "SCAN" in step or "TEMP B-TREE" in step]

    def test_an_id_finds_its_last_job(self, open_store):
        store = open_store()
        store.add([usage(id="h1-7", state="failed"), usage(id="h1-7", state="done"), usage()])
        assert store.by_id("h1-7")[1].state == "done"
        assert store.by_id("h1-8") is None
