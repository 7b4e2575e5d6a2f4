"""What hosts send the dispatcher: only in the name of their own users, and within bounds."""

import time

import pytest

from lbd.config.access import UsersConfig
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config
from lbd.dispatch.core.ledger_rows import Submission
from lbd.dispatch.core.records import Cause
from lbd.dispatch.core.shares import Rules
from lbd.dispatch.intake import (
    checked_signal,
    ending_of,
    heartbeat_fault,
    how_long_ago_s,
)
from lbd.errors import LbdError
from lbd.lbm.inbound.submitted import Submitted
from lbd.net.gen import dispatch_pb2 as pb
from lbd.text.job_limits import HELD_MAX, REQUEST_BYTES_MAX
from tests.unit.dispatch.services import asking, opened, request
from tests.unit.until import until

BY_UID = Config(users=UsersConfig(map="uid"))


@pytest.fixture
async def world(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", rules=Rules(priorities=True)) as world:
        yield world


@pytest.fixture
async def by_uid(tmp_path):
    async with opened(tmp_path / "ledger.sqlite", BY_UID) as world:
        yield world


async def test_an_unknown_resource_is_refused(tmp_path):
    """Without a list of names a host that has it may join, so such a job waits."""
    config = Config(cluster=ClusterConfig(resources=("gpu", "licence")))
    for own, error in ((Config(), ""), (config, '--need: this cluster has no resource "gqu"')):
        async with opened(tmp_path / f"{bool(error)}.sqlite", own) as world:
            assert (await world.submit(asking(needs="gqu=1"))).error.startswith(error)
            assert (await world.submit(asking(needs="gpu=2 +big"))).error == ""
            assert len(await world.ledger.live()) == (1 if error else 2)


# In whose name


@pytest.mark.parametrize(
    "inner", [{"origin": "h1"}, {"user": "bob"}, {"uid": 1002}, {"uid": 0}], ids=str
)
async def test_a_request_in_the_name_of_another_user_is_not_queued(world, inner):
    """The host runs the inner request; only the outer one was compared with the certificate."""
    reply = await world.submit(asking(inner))
    assert "claims to be" in reply.error
    assert reply.error.isprintable()
    assert await world.ledger.live() == []


async def test_tasks_of_an_array_have_no_hundred_thousand_arguments(world):
    """Each took half a second of its host's event loop; a single job may have twice as many."""
    inner = {"argv": [b"true"] + [b"a"] * 10_000}
    assert (await world.submit(asking(inner))).error == ""
    refused = (await world.submit(asking(inner, is_array=True, count=2))).error
    assert refused.startswith("--array: 10001 arguments and variables; the limit for each of")


async def test_excluded_hosts_are_few_for_each_of_many_tasks(world):
    """They are recorded with each task: one submission of 250 KB became 25 GB."""
    names = [f"h{number:03}{'y' * 6}" for number in range(20)]  # 219 bytes with the blanks between
    array = {"is_array": True, "first_index": 1, "excluded": names}
    assert (await world.submit(asking(**array, count=10_000))).error == ""
    refused = await world.submit(asking(**array, count=100_000))
    assert refused.error == (
        "-x: the names of excluded hosts take 219 bytes; the limit for a job is 167 if it is one "
        "of 100000"
    )
    alone = await world.submit(asking(excluded=[f"{name}{'z' * 90}" for name in names * 9]))
    assert alone.error.endswith("excluded hosts take 18179 bytes; the limit for a job is 16384")


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"target_s": 60.0, "deadline": 1e10}, "both"),
        ({"target_s": 0.0}, "has passed"),
        ({"target_s": float("nan")}, "cannot be queued: --target"),
        ({"target_s": 1e300}, "cannot be queued: --target"),
        ({"deadline": 1e9}, "has passed"),
        ({"deadline": float("inf")}, "cannot be queued: --deadline"),
        ({"deadline": float("nan")}, "cannot be queued: --deadline"),
        ({"target_s": 60.0, "work_s": 5e-324, "slots": 2}, "cannot be queued: speedup, work"),
        ({"target_s": 60.0, "is_array": False}, "cannot be queued: --target"),
        ({"target_s": 60.0, "slots": 1, "slots_most": 2}, "cannot be used with a range"),
        ({"target_s": 60.0, "gang": True}, "cannot be used with --gang"),
    ],
    ids=str,
)
async def test_a_target_that_makes_no_sense_is_refused(world, values, error):
    asked = asking()
    asked.is_array, asked.count = True, 3
    for name, value in values.items():
        setattr(asked, name, value)
    assert error in (await world.submit(asked)).error
    assert await world.ledger.live() == []


async def test_a_target_is_stored_as_a_time_on_the_clock_of_the_dispatcher(world):
    asked = asking()
    asked.is_array, asked.count, asked.target_s = True, 3, 3600.0
    before = time.time()
    assert (await world.submit(asked)).error == ""
    for row in await world.ledger.live():
        assert before + 3600.0 <= row.target <= time.time() + 3600.0


async def test_only_fcfs_supports_targets(tmp_path):
    config = Config(dispatch=DispatchConfig(mode="random"))
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        asked = asking()
        asked.is_array, asked.count, asked.target_s = True, 3, 3600.0
        assert "here it is random" in (await world.submit(asked)).error
        assert await world.ledger.live() == []


async def test_no_request_is_longer_than_a_host_takes(world):
    """Nor does a host run a longer one, whatever its dispatcher accepted."""
    long = asking({"argv": (b"x" * REQUEST_BYTES_MAX,)})
    assert "command" in (await world.submit(long)).error
    start = pb.Start(origin="h2", user="ann", uid=1001, spec=long.spec)
    assert Submitted().common(start).fault == f"it has more than {REQUEST_BYTES_MAX} bytes"
    almost = asking({"argv": (b"x" * (REQUEST_BYTES_MAX - 100),)})
    assert (await world.submit(almost)).error == ""


async def test_a_host_is_told_who_submitted_what_it_runs(world):
    line = world.host("h3")
    reply = await world.submit(asking())
    assert reply.error == ""
    await until(lambda: line.starts)
    (start,) = line.starts
    assert (start.origin, start.user, start.uid) == ("h2", "ann", 1001)
    assert Submitted().common(start).fault == ""


async def test_a_submission_without_the_number_of_its_user_is_refused(world):
    asked = asking()
    asked.ClearField("uid")
    assert "does not say whose it is" in (await world.submit(asked)).error


@pytest.mark.parametrize(("inner", "runs"), [({}, True), ({"origin": "h1"}, False)], ids=str)
async def test_a_request_in_the_ledger_runs_only_in_the_name_of_its_submitter(world, inner, runs):
    """Others may have written to it."""
    spec = asking(inner).spec.SerializeToString()
    accepted = await world.ledger.submit(Submission("ann", 1001, "h2", "", b"id", spec), 1.0)
    start = await world.dispatcher.start_of(accepted.submission)
    assert (start.origin, start.user, start.uid) == ("h2", "ann", 1001)
    assert (Submitted().common(start).fault == "") is runs


# Within bounds

SENSELESS = (
    {"first_index": (1 << 63) - 2, "count": 3, "is_array": True},
    {"first_index": -1, "is_array": True},
    {"first_index": 10**18 - 1, "count": 2, "is_array": True},
    {"count": 0}, {"count": 1 << 31}, {"slots": 1 << 31}, {"slots_most": 1 << 31},
    {"priority": 1000}, {"priority": -(1 << 31)}, {"user": ""}, {"user": "x" * 300},
    {"user": "a\0b"}, {"only": "a\nb"}, {"only": "\0"}, {"excluded": ["a b"]},
    {"excluded": [""]}, {"excluded": ["h1"] * 2000}, {"key": "\0"}, {"key": "x" * 300},
    {"command": [b"x" * (5 << 20)]}, {"parallelism": 0.5}, {"parallelism": float("nan")},
    {"parallelism": 2.0, "sigma": -1.0}, {"parallelism": 2.0, "sigma": float("inf")},
    {"work_s": 0.0}, {"work_s": 5e-324}, {"work_s": float("nan")}, {"work_s": 1e10},
)  # fmt: skip
SENSELESS_SPECS = (
    {"submitted": float("nan")}, {"submitted": float("inf")}, {"submitted": -1.0},
    {"output": b"a\0b"}, {"checkpoint": b"x" * (1 << 17)}, {"input": bytes(5 << 20)},
    {"files": "\0"}, {"run_request": b"\xff"},
)  # fmt: skip


@pytest.mark.parametrize("fields", [*SENSELESS, *SENSELESS_SPECS], ids=lambda one: str(one)[:60])
async def test_an_impossible_submission_is_refused_in_one_line(world, fields):
    asked = asking()
    for name, value in fields.items():
        of = asked.spec if name in pb.StoredSpec.DESCRIPTOR.fields_by_name else asked
        if isinstance(value, list):
            del getattr(of, name)[:]
            getattr(of, name).extend(value)
        else:
            setattr(of, name, value)
    reply = await world.submit(asked)
    assert reply.error
    assert reply.error.isprintable()
    assert len(reply.error) < 1000
    assert await world.ledger.live() == []
    assert (await world.submit(asking())).error == ""


GANG = {"gang": True, "is_array": True, "first_index": 0, "count": 4}


@pytest.mark.parametrize(
    ("rules", "fields", "fault"),
    [
        (Rules(), {"is_array": False}, "it needs --array"),
        (Rules(), {"count": 5000}, "5000 jobs; the limit is 4096"),
        (
            Rules(),
            {"slots_most": 2},
            "it cannot be used with --slots 1-2: give a number, not a range",
        ),
        (Rules(user_slots=7), {"slots": 2}, "it needs 8 slots; the limit per user is 7"),
        (Rules(name_jobs=(("x", 3),)), {"name": "x"}, "4 jobs named x; only 3 may run at once"),
    ],
)
async def test_a_gang_that_could_never_start_is_refused(tmp_path, rules, fields, fault):
    async with opened(tmp_path / "ledger.sqlite", rules=rules) as world:
        assert (await world.submit(asking(**GANG))).error == ""
        error = (await world.submit(asking(**GANG | fields))).error
        assert error.startswith(f"--gang: {fault}")


async def test_a_gang_whose_host_names_do_not_fit_one_variable_is_refused(world):
    """128 KiB, the limit of execve."""
    world.host("h" * 63)
    assert (await world.submit(asking(**GANG | {"count": 2047}))).error == ""
    error = (await world.submit(asking(**GANG | {"count": 2048}))).error
    assert error.startswith("--gang: 2048 jobs; with host names as long as")


async def test_a_gang_needs_one_line_that_all_hosts_serve(tmp_path):
    config = Config(dispatch=DispatchConfig(mode="tags"))
    async with opened(tmp_path / "ledger.sqlite", config) as world:
        error = (await world.submit(asking(**GANG))).error
        said = '--gang: it needs dispatch.mode = "fcfs", one queue for all hosts; here it is tags'
        assert error == said


@pytest.mark.parametrize("timeout_s", [float("nan"), float("inf"), -1.0, 1e300])
async def test_an_impossible_time_limit_is_not_queued(world, timeout_s):
    asked, run = asking(), request()
    run.timeout_s = timeout_s
    asked.spec.run_request = run.SerializeToString()
    assert (await world.submit(asked)).error == "this cannot be queued: timeout"


async def test_a_gang_and_its_time_limit_are_kept(world):
    asked, run = asking(**GANG), request()
    run.timeout_s = 90.0
    asked.spec.run_request = run.SerializeToString()
    assert (await world.submit(asked)).error == ""
    assert {(row.gang, row.limit_s) for row in await world.ledger.live()} == {(4, 90.0)}


@pytest.mark.parametrize(
    "fields",
    [
        {"cause": "wished away"}, {"exit_status": 1 << 30}, {"signal": 65}, {"signal": -1},
        {"cpu_s": float("nan")}, {"cpu_s": float("inf")}, {"cpu_s": -1.0},
        {"stop_reason": "x" * 300}, {"max_rss_bytes": 1 << 63},
        {"event": "refused", "errno": -1},
    ],
    ids=str,
)  # fmt: skip
def test_an_impossible_end_is_not_believed(fields):
    news = {"job": "7", "attempt": 1, "event": "ended", "cause": "exited", "exit_status": 0}
    assert ending_of(pb.AttemptReport(**news)).exit_status == 0
    with pytest.raises(ValueError, match="the end of job 7"):
        ending_of(pb.AttemptReport(**news | fields))


@pytest.mark.parametrize(
    ("at_s", "sent_s", "ago_s"),
    [
        (1000.0, 1015.0, 15.0),
        (1000.0, 1000.5, 0.5),
        (0.0, 1015.0, 0.0),
        (1000.0, 0.0, 0.0),
        (1000.0, 900.0, 0.0),
        (1.0, 1e9, 0.0),
        (float("nan"), 1015.0, 0.0),
        (1000.0, float("inf"), 0.0),
    ],
)
def test_the_age_of_an_event_is_believed_within_reason(at_s, sent_s, ago_s):
    assert how_long_ago_s(pb.AttemptReport(at_s=at_s), sent_s) == ago_s


def test_the_reason_for_an_end_is_one_printable_line():
    news = pb.AttemptReport(
        job="7", event="refused", reason="\x1b]0;owned\a\nlbd dispatcher: forged\0"
    )
    assert ending_of(news).reason.isprintable()


@pytest.mark.parametrize(
    "fields", [{"load": float("nan")}, {"load": -1.0}, {"slots": 1 << 31}, {"ahead": 1 << 31}]
)
def test_an_impossible_heartbeat_is_not_believed(fields):
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, open_slots=4, load=0.5)) == ""
    assert heartbeat_fault(pb.Heartbeat(**{"number": 1, "slots": 4} | fields)) in ("load", "slots")


@pytest.mark.parametrize("left_s", [float("nan"), float("inf"), -1.0, 86401.0])
def test_no_lease_lasts_for_ever(left_s):
    held = [pb.Held(job="1", attempt=1, left_s=86400.0), pb.Held(job="2", attempt=1)]
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, held=held)) == ""
    held[1].left_s = left_s
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, held=held)) == "held"


@pytest.mark.parametrize("number", [-1, 65, 1 << 30])
def test_a_signal_that_does_not_exist_is_refused(number):
    with pytest.raises(LbdError):
        checked_signal(number)


# Whose jobs


async def test_where_numbers_count_a_namesake_elsewhere_has_no_say(by_uid):
    """ann on h2 is 1001; ann on h3 is another person, 1002."""
    assert (await by_uid.submit(asking())).first == 1
    by_uid.trust.name = "h3"
    hers = asking({"origin": "h3", "uid": 1002}, origin="h3", uid=1002)
    assert (await by_uid.submit(hers)).first == 2
    asked = {"verb": "kill", "selectors": ["1"], "user": "ann"}
    for uid in ({"uid": 1002}, {}):
        reply = await by_uid.act(**asked, **uid)
        assert list(reply.errors) == ["permission denied: job 1 is not yours"]
    everything = await by_uid.act(verb="hold", selectors=["@me"], user="ann", uid=1002)
    assert list(everything.done_ids) == ["2"]
    last = await by_uid.jobs(selectors=["last"], user="ann", uid=1001)
    assert [(job.id, job.uid) for job in last.jobs] == [(1, 1001)]
    assert list((await by_uid.act(**asked, uid=1001)).done_ids) == ["1"]


async def test_where_numbers_count_shares_do_too(tmp_path):
    rules = Rules(user_slots=1)
    async with opened(tmp_path / "ledger.sqlite", BY_UID, rules) as world:
        line = world.host("h3")
        await world.submit(asking())
        await world.submit(asking({"uid": 1002}, uid=1002))
        await world.submit(asking({"user": "anna"}, user="anna"))
        await until(lambda: len(line.starts) == 2)
        assert {start.uid for start in line.starts} == {1001, 1002}


async def test_where_numbers_count_each_user_has_their_own_keys(by_uid):
    mine = await by_uid.submit(asking(key="k"))
    hers = await by_uid.submit(asking({"uid": 1002}, uid=1002, key="k"))
    again = await by_uid.submit(asking(key="k"))
    assert (mine.first, hers.first, again.first) == (1, 2, 1)


async def test_where_names_count_numbers_do_not(world):
    """One person may have different numbers on different hosts."""
    await world.submit(asking())
    reply = await world.act(verb="hold", selectors=["1"], user="ann", uid=7)
    assert list(reply.done_ids) == ["1"]


def test_an_eviction_is_known():
    news = pb.AttemptReport(job="7", event="ended", cause="evicted")
    assert ending_of(news).cause is Cause.EVICTED


def test_no_host_holds_so_many_attempts():
    held = [pb.Held(job="1", attempt=1)] * (HELD_MAX + 1)
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, held=held[1:])) == ""
    assert heartbeat_fault(pb.Heartbeat(number=1, slots=4, held=held)) == "held"
