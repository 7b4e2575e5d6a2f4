"""Whose jobs `lbctl` shows: by name, or by number where users.map is "uid", on all hosts."""

import math
from types import SimpleNamespace

import pytest

from lbd.cli.ctl.jobs.listing import hidden_lines
from lbd.config.access import AdminConfig, AdmissionConfig, UsersConfig
from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.keeper.local_account import Asker
from lbd.lbm.core.jobs import Job, Jobs
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.session import queue_questions
from lbd.lbm.session.cpu_of_jobs import CpuOfJobs
from lbd.lbm.session.cpu_used import CpuUsed
from lbd.lbm.session.questions import Questions
from lbd.lbm.session.queue_questions import QueueAnswers
from lbd.local.json_socket import Refusal
from lbd.local.long_answers import LongAnswers
from lbd.model import HostId, JobId
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2

OWN, OTHER = 0, 4711  # of two people who have the same name on two hosts
NAME = user_name(OWN)
CALLER = SimpleNamespace(uid=OWN, person=OWN)


class Queue:
    """A dispatcher with a job of each, and one whose user number it does not report."""

    hosts, kept_bytes = ("h1",), 1 << 20

    def __init__(self):
        self.asked, self.unlisted = [], 0

    async def jobs(self, asked):
        self.asked.append(asked)
        told = [pb.JobInfo(id=1, user=NAME, uid=OWN), pb.JobInfo(id=2, user=NAME, uid=OTHER)]
        return pb.JobsInfo(jobs=[*told, pb.JobInfo(id=3, user=NAME)], unlisted=self.unlisted)

    async def act(self, asked):
        self.asked.append(asked)
        return pb.ActReply()


def config(users, admins_on=(), **admission):
    config = Config(
        host=HostConfig(name="h1"), users=UsersConfig(map=users),
        admin=AdminConfig(hosts=admins_on), admission=AdmissionConfig(**admission),
    )  # fmt: skip
    return SimpleNamespace(
        host=config.host, users=config.users, dispatch=SimpleNamespace(host="h1"),
        admin=config.admin, admission=config.admission,
    )  # fmt: skip


@pytest.fixture
def queue():
    return Queue()


def answers(queue, users, *, is_admin=False):
    long = LongAnswers()
    home = SimpleNamespace(queue=queue, config=config(users), files=None, long_answers=long)
    return QueueAnswers(home, SimpleNamespace(include=lambda _: is_admin))


@pytest.mark.parametrize(("users", "seen"), [("uid", ["1"]), ("name", ["1", "2", "3"])])
async def test_jobs_of_a_namesake_are_not_shown_where_numbers_count(queue, users, seen):
    asked = {"op": "queue.jobs", "ids": ["1-3"]}
    told = await answers(queue, users).answer(asked, CALLER)
    assert [job["id"] for job in told["jobs"]] == seen
    own, _ = await answers(queue, users).jobs({"all": True}, Asker(NAME, OWN))
    assert [job["id"] for job in own] == seen
    assert len((await answers(queue, users).jobs({"all": True}, None))[0]) == 3
    assert [(one.user, one.uid) for one in queue.asked] == [(NAME, OWN)] * 2 + [("", 0)]
    queue.unlisted = 591
    assert (await answers(queue, users).jobs({"all": True}, None))[1] == 591


async def test_of_several_ids_those_of_others_are_named(queue):
    """`lbctl wait MINE THEIRS` said that all had succeeded while theirs still ran."""
    for op in ("queue.jobs", "queue.wait"):
        asked = {"op": op, "ids": ["1", "2", "3"], "some": True}
        told = await answers(queue, "uid").answer(asked, CALLER)
        assert told["absent"] == ["permission denied: jobs 2, 3 are not yours"]
        told = await answers(queue, "uid").answer({**asked, "ids": ["1-3"]}, CALLER)
        assert told["absent"] == [], "of a range, one's own jobs are meant"
        assert told.get("others") == (2 if op == "queue.jobs" else None)


@pytest.mark.parametrize(("origin", "fetched"), [("h1", False), ("h2", None)])
async def test_the_submitting_host_says_whether_outputs_have_come(queue, origin, fetched):
    job = pb.JobInfo(id=7, user=NAME, uid=OWN, origin=origin,
                     given=pb.GivenInfo(submitted_in=b"/home", fetch=[b"o.txt"]))  # fmt: skip
    expected = [True, False]

    async def jobs(_asked):
        return pb.JobsInfo(jobs=[job])

    queue.jobs = jobs
    asked = answers(queue, "uid")
    asked._home.files = SimpleNamespace(
        awaited=SimpleNamespace(troubles={}, expects=lambda job, array: expected[0])
    )
    for is_expected in (True, False):
        expected[0] = is_expected
        (told,) = (await asked.answer({"op": "queue.jobs", "ids": ["7"]}, CALLER))["jobs"]
        assert told["fetched"] is (None if fetched is None else not is_expected)
        assert (told["submitted_in"], told["fetch"]) == ("/home", ["o.txt"])


async def test_an_administrator_sees_all(queue):
    told = await answers(queue, "uid", is_admin=True).answer(
        {"op": "queue.jobs", "ids": ["1-3"]}, CALLER
    )
    assert len(told["jobs"]) == 3


async def test_a_user_who_owns_none_of_the_named_jobs_is_told_so(queue):
    with pytest.raises(Refusal, match="jobs 1, 2, 3 are not yours"):
        await answers(queue, "uid").answer(
            {"op": "queue.logs", "ids": ["1"]}, SimpleNamespace(uid=4712, person=4712)
        )


async def test_an_array_of_another_user_is_named_by_its_own_id(queue, monkeypatch):
    """It was called 1_0, as if it had a task 0."""

    async def array(_asked):
        theirs = pb.JobInfo(id=1, array_id=1, user=NAME, uid=OTHER, array=pb.ArrayInfo())
        return pb.JobsInfo(jobs=[theirs])

    monkeypatch.setattr(queue, "jobs", array)
    with pytest.raises(Refusal, match="permission denied: job 1 is not yours"):
        await answers(queue, "uid").answer({"op": "queue.jobs", "ids": ["1"]}, CALLER)


async def test_a_user_without_any_jobs_is_told_so(queue, monkeypatch):
    async def none(_asked):
        return pb.JobsInfo()

    monkeypatch.setattr(queue, "jobs", none)
    with pytest.raises(Refusal):
        await answers(queue, "uid").answer({"op": "queue.logs", "ids": ["@me"]}, CALLER)


async def test_following_continues_from_the_same_position_while_the_attempt_is_unknown(queue):
    question = {"op": "queue.logs", "ids": ["1"], "at": [7, 3], "seen_attempt": 1}
    told = await answers(queue, "uid").answer(question, CALLER)
    assert (told["at"], told["data"], told["more"]) == ([7, 3], [], True)


async def test_the_dispatcher_is_told_the_number_of_the_acting_user(queue):
    await answers(queue, "uid").answer({"op": "queue.act", "verb": "kill", "ids": ["1"]}, CALLER)
    (asked,) = queue.asked
    assert (asked.user, asked.uid, asked.HasField("uid")) == (NAME, OWN, True)


@pytest.mark.parametrize(
    ("users", "request_of", "seen"),
    [
        ("uid", {"user": "ann", "uid": OTHER}, ["h1-2"]),
        ("uid", {"user": "anna", "uid": OTHER}, ["h1-2"]),
        ("uid", {"user": "ann"}, []),
        ("name", {"user": "ann", "uid": OTHER}, ["h1-1", "h1-2"]),
        ("name", {"user": "ann"}, ["h1-1", "h1-2"]),
        ("uid", {}, ["h1-1", "h1-2", "h1-3"]),  # for an administrator
    ],
)
async def test_the_same_ones_are_listed_of_the_commands_of_a_host(users, request_of, seen):
    jobs = Jobs(10)
    for number, uid in ((1, 1000), (2, OTHER), (3, -1)):
        user = "bob" if uid < 0 else "ann"
        name = JobId(f"h1-{number}")
        jobs.add(Job(name, (b"x",), user, HostId("h1"), HostId("h2"), 0.0, uid=uid))
    questions = answering(jobs, config(users, admins_on=("h2",)))
    reply = await questions.jobs_for_peer(lbm_pb2.JobsRequest(**request_of), "h2")
    assert [job.id for job in reply.jobs] == seen
    assert not reply.withheld


def answering(jobs, of):
    questions = object.__new__(Questions)
    questions._cpu = CpuOfJobs("h1", CpuUsed((), {}), lambda: None)
    questions._host = SimpleNamespace(jobs=jobs, config=of)
    questions._home = SimpleNamespace(staying={}, commands={}, rules=SimpleNamespace(config=of))
    return questions


@pytest.mark.parametrize(
    ("host", "settings", "request_of", "seen", "withheld"),
    [
        ("h3", {}, {"user": "ann"}, ["h1-1", "h1-2"], ""),
        ("h3", {}, {}, ["h1-2"], "admin.hosts"),  # runs there
        ("h2", {}, {}, ["h1-1", "h1-3"], "admin.hosts"),
        ("h4", {}, {}, [], "admin.hosts"),
        ("", {}, {}, [], "admin.hosts"),
        ("h4", {"admins_on": ("h?",)}, {}, ["h1-1", "h1-2", "h1-3", "h1-4"], ""),
        ("h3", {"deny_origins": ("h3",)}, {"user": "ann"}, ["h1-2"], "admission.deny_origins"),
        ("h4", {"origins": ("h3",)}, {"user": "ann"}, [], "admission.origins"),
        ("h4", {"users": "uid"}, {"user": "ann"}, [], "admin.hosts"),
        ("h4", {"users": "uid"}, {"user": "x", "uid": OTHER}, ["h1-2"], ""),
    ],
)
async def test_a_host_sees_the_jobs_of_whom_it_speaks_for(
    host, settings, request_of, seen, withheld
):
    jobs = Jobs(10)
    rows = (1, "ann", 1000, "h2"), (2, "ann", OTHER, "h3"), (3, "bob", 1001, "h2"), (4, "c", 1, "")
    for number, user, uid, runs_on in rows:
        name = JobId(f"h1-{number}")
        jobs.add(Job(name, (b"x",), user, HostId("h1"), HostId(runs_on), 0.0, uid=uid))
    questions = answering(jobs, config(**{"users": "name", **settings}))
    reply = await questions.jobs_for_peer(lbm_pb2.JobsRequest(**request_of), host)
    assert ([job.id for job in reply.jobs], reply.withheld) == (seen, withheld)


async def test_an_administrator_who_does_not_count_there_sees_only_their_own():
    asked = []

    async def ask(_uid, _host, _method, request, _reply, _timeout_s):
        asked.append(request.user)
        ids = ("h2-1",) if request.user else ("h2-2",)
        rows = [lbm_pb2.JobRecord(id=name, origin="h2", user="ann") for name in ids]
        return lbm_pb2.JobsReply(jobs=rows, withheld="" if request.user else "admin.hosts\x1b[2J")

    async def others():
        return [SimpleNamespace(name="h2", is_down=False)]

    questions = answering(Jobs(10), config("name"))
    questions._home.cluster = SimpleNamespace(ask=ask, others=others)
    questions._home.lim = SimpleNamespace(connected=True)
    questions._home.queue, questions._home.config = None, config("name")
    found = await questions._jobs({}, Asker("ann", 1000), is_admin=True)
    assert [job["id"] for job in found["jobs"]] == ["h2-2", "h2-1"]
    assert asked == ["", "ann"]
    assert found["withheld"] == {"h2": "admin.hosts?[2J"}
    assert hidden_lines(found) == [
        "h2: this host is not shown everybody's jobs there (admin.hosts?[2J there)"
    ]


async def test_a_job_of_impossible_times_spoils_nobodys_list():
    """Another host has made it up: shown, it would cause a traceback for everyone who lists
    jobs."""
    times = {"submitted": 5.0}, {"submitted": math.inf}, {"cpu_s": math.nan}, {"started": -1.0}
    made = [lbm_pb2.JobRecord(id=f"h2-{n}", origin="h2", **one) for n, one in enumerate(times)]
    assert await answered_by_h2(made, "") == ["h2-0"]


async def answered_by_h2(made, user, users="name"):
    """Returns the ids that h1 believes."""

    async def ask(*_):
        return lbm_pb2.JobsReply(jobs=made)

    home = SimpleNamespace(cluster=SimpleNamespace(ask=ask), config=config(users))
    questions = SimpleNamespace(_home=home)
    asked = lbm_pb2.JobsRequest(user=user)
    shown = await Questions._jobs_of(questions, SimpleNamespace(name="h2"), asked, asked)
    return [job.id for job in shown.jobs]


IDS = "h1-7", "7", "12_7", "1-99", "@me", "last", "h2-", "h2-x", "h2-1-2", "h2-\u0663", "h2--1"


@pytest.mark.parametrize("name", [*IDS, "h2-" + "1" * 300])
async def test_a_host_names_no_job_but_its_own(name):
    """`lbctl kill --name` ends jobs by the ids found for a name; `@me` as an id would mean all."""
    made = [lbm_pb2.JobRecord(id=one, origin="h2", name="mine") for one in (name, "h2-3")]
    assert await answered_by_h2(made, "") == ["h2-3"]


@pytest.mark.parametrize(("users", "seen"), [("name", ["h2-1"]), ("uid", ["h2-1", "h2-2"])])
async def test_a_host_shows_nobody_the_jobs_of_others(users, seen):
    users_of = enumerate(("ann", "bob"), 1)
    made = [lbm_pb2.JobRecord(id=f"h2-{n}", origin="h2", user=user) for n, user in users_of]
    assert await answered_by_h2(made, "ann", users) == seen


async def test_a_reply_with_the_number_of_jobs_lists_none():
    """`lbctl predict --calibration` is answered this way."""
    questions = answering(Jobs(10), config("name"))
    assert await questions._with_cpu({"jobs": 7}, CALLER) == {"jobs": 7}


@pytest.mark.parametrize(("verb", "asked"), [("show", 1), ("kill", 0), ("wait", 0)])
async def test_only_for_a_user_who_is_shown_a_command_are_other_hosts_asked_what_it_has_used(
    verb, asked
):
    questions, added = answering(Jobs(10), config("name")), []

    async def answer(*_):
        return {"job": {"id": "h1-7"}}

    async def add(jobs, _):
        added.append(jobs)

    questions.commands, questions._cpu = SimpleNamespace(answer=answer), SimpleNamespace(add=add)
    await questions.answer({"op": f"command.{verb}"}, CALLER)
    assert len(added) == asked


async def test_if_only_the_queue_is_wanted_no_host_is_asked(queue):
    questions = answering(Jobs(10), config("uid"))
    questions._queue = answers(queue, "uid")
    questions._home.queue, questions._home.config = queue, config("uid")

    async def peers(*_):
        raise AssertionError("a host was asked")

    questions._peers_jobs = peers
    asked = {"op": "jobs", "all": True, "hosts": False, "tasks": True}
    told = await questions._jobs(asked, Asker(NAME, OWN), is_admin=True)
    assert [job["id"] for job in told["jobs"]] == ["1", "2", "3"]
    assert not told["missing"]
    assert queue.asked[0].ended_too


class Ending(Queue):
    """An array of three tasks and a job, which end as somebody waits for them."""

    def __init__(self, ended=("done", 3)):
        super().__init__()
        self.tasks, self.watched = {"running": 1, "pending": 2}, []
        self._ended = ended

    async def jobs(self, asked):
        self.asked.append(asked)
        array = pb.ArrayInfo(tasks=self.tasks, count=3)
        state = "running" if "running" in self.tasks else "done"
        one = pb.JobInfo(id=4, array_id=4, user=NAME, uid=OWN, state=state, array=array)
        return pb.JobsInfo(jobs=[one])

    async def watch(self, asked):
        self.watched.append(asked)
        state, count = self._ended
        if state:
            self.tasks = {state: count}
        elif count:
            yield pb.JobsInfo(error="ann is already waiting for 100 jobs")


async def test_an_array_that_is_waited_for_is_one_job_until_it_has_ended():
    queue = Ending()
    asked = {"op": "queue.wait", "ids": ["4"], "patience_s": 5, "brief": True, "outputs": True}
    told = await answers(queue, "uid").answer(asked, CALLER)
    assert (told["open"], told["all_done"], told["states"]) == (0, True, {"done": 3})
    assert told["jobs"] == []
    assert all(one.by_array and one.unexplained for one in queue.asked)
    (watched,) = queue.watched
    assert watched.all_ended
    assert list(watched.selectors) == ["4-6"]


async def test_a_dispatcher_that_calls_what_runs_ended_is_not_asked_again_at_once(monkeypatch):
    """It may know of an end that is not on disk."""
    pauses = []

    async def sleep(pause_s):
        pauses.append(pause_s)

    monkeypatch.setattr(queue_questions.asyncio, "sleep", sleep)
    asked = {"op": "queue.wait", "ids": ["4"], "patience_s": 5, "brief": True}
    told = await answers(Ending(("", 0)), "uid").answer(asked, CALLER)
    assert (told["open"], told["all_done"]) == (3, False)
    assert pauses == [queue_questions.AGAIN_S]


async def test_who_waits_for_too_many_jobs_is_told_so():
    asked = {"op": "queue.wait", "ids": ["4"], "patience_s": 5, "brief": True}
    with pytest.raises(Refusal, match="already waiting for 100 jobs"):
        await answers(Ending(("", 1)), "uid").answer(asked, CALLER)


async def test_what_came_before_a_checkpoint_may_be_gone_and_the_rest_is_shown(queue):
    attempts = [
        pb.AttemptInfo(number=1, host="h2", state="checkpoint"),
        pb.AttemptInfo(number=2, host="h3", state="done"),
    ]
    job = pb.JobInfo(id=1, user=NAME, uid=OWN, state="done", attempt=2, started=1.0)
    job.attempts.extend(attempts)

    async def jobs(asked):
        return pb.JobsInfo(jobs=[job])

    async def logs(host, asked):
        yield pb.LogsPiece(trouble="removed") if host == "h2" else pb.LogsPiece(output=b"end")

    queue.jobs, queue.spools = jobs, SimpleNamespace(logs=logs)
    told = await answers(queue, "uid").answer({"op": "queue.logs", "ids": ["1"]}, CALLER)
    assert (told["warning"], told["data"][0]) == ("h2: removed", "ZW5k")
    del job.attempts[1]
    job.attempt = 1
    with pytest.raises(Unavailable, match="h2: removed"):
        await answers(queue, "uid").answer({"op": "queue.logs", "ids": ["1"]}, CALLER)
