"""What another host may ask of the accounting here."""

import math
import time
from types import SimpleNamespace

import pytest

from lbd.config.access import AdminConfig, AdmissionConfig, UsersConfig
from lbd.config.schema import Config, HostConfig, StatsConfig
from lbd.errors import PeerError
from lbd.lbm.session.usage_questions import (
    CLOCK_OFF_S,
    GAPS_MAX,
    PAST_MAX,
    PATTERN_CHARS,
    STATES_MAX,
    UsageAnswers,
    gaps_json,
    stats_json,
)
from lbd.lbm.usage.gaps import Gap
from lbd.lbm.usage.record import Usage
from lbd.lbm.usage.store import UsageStore
from lbd.local.caller import Caller
from lbd.net.gen import lbm_pb2 as pb


@pytest.mark.parametrize(
    "asked",
    [
        pb.PastRequest(name="*" * (PATTERN_CHARS + 1)),
        pb.PastRequest(host="*" * (PATTERN_CHARS + 1)),
        pb.PastRequest(states=["x" * (PATTERN_CHARS + 1)]),
        pb.PastRequest(states=["done"] * (STATES_MAX + 1)),
        pb.PastRequest(before_number=(1 << 64) - 1),
        pb.PastRequest(ids=["1"] * (PAST_MAX + 1)),
        pb.PastRequest(ids=["1" * (PATTERN_CHARS + 1)]),
    ],
)
async def test_a_host_may_ask_no_longer_question_than_a_user(asked):
    answers = UsageAnswers(SimpleNamespace(usage=None), SimpleNamespace(), SimpleNamespace())
    with pytest.raises(PeerError, match=r"question too long|number of a job"):
        await answers.past(asked, "h2")


async def test_a_host_asks_for_no_page_after_a_job_that_cannot_be():
    answers = UsageAnswers(SimpleNamespace(usage=None), SimpleNamespace(), SimpleNamespace())
    with pytest.raises(PeerError):
        await answers.history(pb.HistoryRequest(after=(1 << 64) - 1))


NOW = time.time()
ONE = pb.Sums(count=1, total=2.0, squares=4.0, steps={7: 1})


def figures(**more):
    return pb.Figures(**{"jobs": 1, "cpu_s": 1.0, "response": ONE, "slot_s": 2.0} | more)


@pytest.mark.parametrize(
    "lie",
    [
        figures(jobs=1 << 60),
        figures(failed=2),
        figures(cpu_s=math.nan),
        figures(cpu_s=-1.0),
        figures(cpu_s=1e30),
        figures(slot_s=1e30),
        figures(response=pb.Sums(count=1, total=1e10)),
        figures(waiting=pb.Sums(count=2)),
        figures(waiting=pb.Sums(count=1, total=-1.0)),
        figures(waiting=pb.Sums(count=1, squares=1e60)),
        figures(slowdown=pb.Sums(count=1, steps={1 << 30: 1})),
        figures(slowdown=pb.Sums(count=1, steps={1: 2})),
        figures(slowdown=pb.Sums(count=1, steps={1: 0})),
        figures(key="x" * 256),
    ],
)
def test_figures_that_cannot_be_are_those_of_no_host(lie):
    """They would be added to the others', or break everybody's `lbctl stats`."""
    for reply in (pb.StatsReply(all=lie), pb.StatsReply(all=figures(), by_user=[lie])):
        with pytest.raises(PeerError, match=r"no figures|cannot be"):
            stats_json(reply, "", NOW)


def test_a_host_has_no_more_jobs_of_users_than_jobs():
    """That many less than none were shown to be without a user."""
    own = [figures(key="ann"), figures(key="bob")]
    with pytest.raises(PeerError, match="cannot be"):
        stats_json(pb.StatsReply(all=figures(), by_user=own), "", NOW)
    assert stats_json(pb.StatsReply(all=figures(), by_user=own[:1]), "", NOW)["by_user"]


@pytest.mark.parametrize("begun_s", [0.0, -1.0, math.nan, math.inf, 1e60])
def test_a_record_that_begins_at_no_time_begins_when_nobody_knows(begun_s):
    reply = pb.StatsReply(all=figures(), record_since=begun_s)
    assert stats_json(reply, "", NOW)["record_since"] is None
    assert stats_json(pb.StatsReply(record_since=NOW + 60), "", NOW)["record_since"] == NOW + 60


ANN, BOB, OTHER_ANN = ("ann", 2001), ("bob", 2002), ("ann", 2003)  # two have the same name


class Log:
    lost, trouble = 0, ""

    def __init__(self, store):
        self.store = store

    def gaps(self):
        return [*self.store.gaps(), Gap(1, NOW, NOW, not_yet=True)]

    async def ask(self, question):
        return question(self.store)


@pytest.fixture
def ended(tmp_path):
    """Returns h1's answers; commands of ann and bob have ended there, and a job of h2's."""
    store = UsageStore(tmp_path / "usage.sqlite", StatsConfig())
    rows = ("h1-1", ANN, "h1"), ("h1-2", BOB, "h1"), ("h1-3", OTHER_ANN, "h1"), ("4", BOB, "h2")
    store.add(
        [
            Usage(
                finished=NOW, submitted=NOW - 2.0, waiting_s=0.5, response_s=2.0, cpu_s=1.0,
                user=user, uid=uid, command="cc", origin=origin, host="h1", failed=False,
                moved=False, wrong=False, pinned=False, state="done", id=job, words=b"cc\0--secret",
            )
            for job, (user, uid), origin in rows
        ]
    )  # fmt: skip

    def answers(admin_hosts=(), users_map="name", **admission):
        config = Config(
            host=HostConfig(name="h1"), admin=AdminConfig(hosts=admin_hosts),
            users=UsersConfig(map=users_map), admission=AdmissionConfig(**admission),
        )  # fmt: skip
        home = SimpleNamespace(config=config, usage=Log(store))
        return UsageAnswers(home, SimpleNamespace(config=config), SimpleNamespace())

    yield answers
    store.close()


async def shown(answers, host="h2", **asked):
    """Returns (ids, setting address at which others' are withheld) as `host` learns them."""
    asked = pb.PastRequest(limit=100, **asked)
    reply = await answers.past(asked, host)
    return {job.id for job in reply.jobs}, reply.withheld


async def test_a_host_learns_nobodys_past_but_of_a_user_it_speaks_for(ended):
    assert await shown(ended(), user="ann") == ({"h1-1", "h1-3"}, "")
    assert await shown(ended()) == ({"4"}, "admin.hosts")
    assert await shown(ended(), host="h3") == (set(), "admin.hosts")
    assert await shown(ended(), host="") == (set(), "admin.hosts")


async def test_a_host_whose_administrators_count_learns_of_all(ended):
    of_all = {"h1-1", "h1-2", "h1-3", "4"}
    assert await shown(ended(admin_hosts=("h2",))) == (of_all, "")
    assert await shown(ended(admin_hosts=("h2",)), host="h3") == (set(), "admin.hosts")


async def test_a_host_that_the_owner_does_not_admit_speaks_for_no_user(ended):
    refused = ended(origins=("h3",))
    assert await shown(refused, user="bob") == ({"4"}, "admission.origins")
    assert await shown(refused, user="ann") == (set(), "admission.origins")
    assert await shown(ended(deny_origins=("h2",)), user="ann") == (set(), "admission.deny_origins")
    assert (await shown(ended(origins=("h2",)), user="ann"))[1] == ""


async def test_where_numbers_count_a_namesake_elsewhere_has_no_past_here(ended):
    by_uid = ended(users_map="uid")
    assert await shown(by_uid, user="ann", uid=2001) == ({"h1-1"}, "")
    assert await shown(by_uid, user="ann") == (set(), "admin.hosts")
    asked = pb.StatsRequest(user="ann", uid=2003)
    stats = await by_uid.stats(asked, "h2")
    assert stats.all.jobs == 1


async def test_a_host_says_which_jobs_it_has_on_record_and_what_it_lacks(ended):
    answers = ended(admin_hosts=("h2",))
    assert await shown(answers, ids=["4", "h1-2", "99"]) == ({"h1-2", "4"}, "")
    answers._log.store.add([], Gap(3, NOW - 9.0, NOW - 8.0))
    past = await answers.past(pb.PastRequest(limit=1, ids=["99"]), "h2")
    stats = await answers.stats(pb.StatsRequest(), "h2")
    assert past.goes_by_ids
    assert past.record_since == stats.record_since > 0
    unproven = await answers.past(pb.PastRequest(limit=1, ids=["4"]), "")
    assert not unproven.goes_by_ids, "nothing is shown to it, not even what it submitted"
    for reply in (past, stats):
        assert gaps_json(reply.gaps) == [
            {"commands": 3, "since": NOW - 9.0, "until": NOW - 8.0, "not_yet": False},
            {"commands": 1, "since": NOW, "until": NOW, "not_yet": True},
        ]


@pytest.mark.parametrize(
    "lie",
    [pb.Gap(commands=1 << 60, until=1.0), pb.Gap(commands=1, since=math.nan, until=1.0),
     pb.Gap(commands=1, since=2.0, until=1.0), pb.Gap(commands=1, until=math.inf),
     pb.Gap(commands=1, since=-1.0)],
)  # fmt: skip
def test_gaps_that_cannot_be_are_those_of_no_host(lie):
    with pytest.raises(PeerError, match="not numbers"):
        gaps_json([lie])
    assert gaps_json([pb.Gap(until=1.0)]) == [
        {"commands": 0, "since": 0.0, "until": 1.0, "not_yet": False}
    ]
    assert len(gaps_json([pb.Gap(commands=1, until=1.0)] * 1000)) == GAPS_MAX


class Other:
    """A host, h2, that answers what it likes."""

    is_down = False

    def __init__(self, reply):
        self.reply = reply

    async def peer(self, _host):
        return self

    async def ask(self, *_):
        return self.reply


async def test_a_past_job_with_impossible_times_spoils_no_history():
    sound = pb.JobRecord(id="h2-1", origin="h2", submitted=NOW, finished=NOW)
    times = math.nan, math.inf, -1.0
    odd = [pb.JobRecord(id="h2-2", origin="h2", finished=at) for at in times]
    cluster = Other(pb.PastReply(jobs=[*odd, sound], withheld="\x1b[2Jadmin.hosts\n"))
    home = SimpleNamespace(config=Config(), usage=None, cluster=cluster)
    answers = UsageAnswers(home, SimpleNamespace(), SimpleNamespace(include=lambda _: True))
    question = {"op": "past", "of": "h2", "limit": 10}
    found = await answers.answer(question, Caller(0, 0, 1))
    assert [job["id"] for job in found["jobs"]] == ["h2-1"]
    assert found["withheld"].isprintable()


@pytest.mark.parametrize("is_honest", [True, False])
async def test_ends_of_the_future_do_not_hide_those_of_other_hosts(is_honest):
    """A host whose clock is wrong has such ends; what it has of earlier is shown."""
    now_s = time.time()
    ahead = pb.JobRecord(id="h2-2", origin="h2", submitted=NOW, finished=now_s + 2 * CLOCK_OFF_S)
    sound = pb.JobRecord(id="h2-1", origin="h2", submitted=NOW, finished=NOW)

    class WrongClock(Other):
        async def ask(self, *asked):
            before = asked[3].before
            earlier = [sound] if is_honest else [ahead, sound]
            return pb.PastReply(jobs=earlier if before else [ahead], more=not before)

    home = SimpleNamespace(config=Config(), usage=None, cluster=WrongClock(None))
    answers = UsageAnswers(home, SimpleNamespace(), SimpleNamespace(include=lambda _: True))
    found = await answers.answer({"op": "past", "of": "h2", "limit": 1}, Caller(0, 0, 1))
    assert [job["id"] for job in found["jobs"]] == ["h2-1"]
    assert (found["is_ahead"], found["more"]) == (True, False)


@pytest.mark.parametrize(
    ("users_map", "seen"),
    [("name", ["h2-1", "12", "12_7", "h2-4"]), ("uid", ["h2-1", "12", "12_7", "h2-4", "h2-2"])],
)
async def test_a_host_tells_of_no_past_but_its_own_and_that_of_who_asks(users_map, seen):
    ids = "h2-1", "h1-7", "12", "12_7", "1-99", "@me", "last", "h2-x", "h2-1-2", ""
    made = [pb.JobRecord(id=one, origin="h2", user="root", host="h2") for one in ids]
    made += [pb.JobRecord(id="h2-4", origin="h2", user="root", host="h3")]  # moved from there
    made += [pb.JobRecord(id="h2-2", origin="h2", user="bob")]
    made += [pb.JobRecord(id="h2-3", origin="h1", user="root")]
    # h3 has it on record, as every host has the jobs of the queue that ran there
    made += [pb.JobRecord(id="7", origin="h2", user="root", host=one) for one in ("h3", "h1", "")]
    home = SimpleNamespace(
        config=Config(users=UsersConfig(map=users_map)), usage=None,
        cluster=Other(pb.PastReply(jobs=made)),
    )  # fmt: skip
    answers = UsageAnswers(home, SimpleNamespace(), SimpleNamespace(include=lambda _: False))
    found = await answers.answer({"op": "past", "of": "h2", "limit": 50}, Caller(0, 0, 1))
    assert [job["id"] for job in found["jobs"]] == seen
