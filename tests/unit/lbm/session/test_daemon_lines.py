"""Who is shown what daemons logged about a job, and which of another host's lines are believed."""

import logging
import math
import time
from types import SimpleNamespace

import pytest

from lbd.config.access import AdminConfig, AdmissionConfig, UsersConfig
from lbd.config.schema import Config, HostConfig
from lbd.errors import PeerError, Unavailable
from lbd.lbm.owner.accounts import user_name
from lbd.lbm.session.command_questions import CommandAnswers
from lbd.lbm.session.daemon_lines import DaemonLines, Gathered
from lbd.lbm.session.queue_questions import QueueAnswers
from lbd.local.json_socket import Refusal, serve_json
from lbd.net.gen import dispatch_pb2, lbm_pb2
from lbd.process.job_log import JobLog, RecentLines

OWN, OTHER = 0, 4711
NAME = user_name(OWN)
CALLER, STRANGER = (SimpleNamespace(uid=uid, person=uid) for uid in (OWN, OTHER))


class Queue:
    """A dispatcher with a job, and an array."""

    hosts = ("h1",)

    def __init__(self):
        self.found = {
            "7": dispatch_pb2.JobInfo(id=7, user=NAME, uid=OWN),
            "12": dispatch_pb2.JobInfo(id=12, array_id=12, user=NAME, uid=OWN),
        }

    async def jobs(self, asked):
        if not self.found:
            raise Unavailable("the dispatcher does not answer")
        named = "12" if asked.selectors[0].startswith("12") else asked.selectors[0]
        jobs = self.found.values() if named == "@me" else [self.found[named]]
        return dispatch_pb2.JobsInfo(jobs=jobs)


class Cluster:
    def __init__(self):
        self.asked = []

    async def others(self):
        return [SimpleNamespace(name=name, is_down=name == "h3") for name in ("h2", "h3", "h4")]

    async def peer(self, _name):
        return SimpleNamespace(name="h2", is_down=False)

    async def ask(self, _uid, peer, method, asked, _reply, _timeout_s, **_):
        if method == "Command":
            error = "" if asked.user == NAME else "permission denied: h2-1 is not yours"
            return lbm_pb2.CommandReply(error=error, code="denied" if error else "")
        if peer.name == "h4":
            raise Unavailable("no answer within 5 s")
        self.asked.append(asked)
        return lbm_pb2.LinesReply(lines=[said(job=asked.job)])


def said(unix_s=100.0, daemon="lim", level="debug", job="7", text="placed on h2: lowest"):
    return lbm_pb2.LogLine(unix_s=unix_s, daemon=daemon, level=level, job=job, text=text)


RECENT = RecentLines()
job_log = JobLog(logging.getLogger("lbd.test"), RECENT)
job_log.info("7", "runs as process 5")
job_log.info("8", "is another's")


def answers(tmp_path, *, is_admin=False, admission=None, admins_on=()):
    config = Config(
        host=HostConfig(name="h1", runtime_dir=str(tmp_path)), users=UsersConfig(map="name"),
        admin=AdminConfig(hosts=admins_on), admission=admission or AdmissionConfig(),
    )  # fmt: skip
    home = SimpleNamespace(
        queue=Queue(), config=config, files=None, cluster=Cluster(),
        rules=SimpleNamespace(config=config),
    )  # fmt: skip
    admins = SimpleNamespace(include=lambda _: is_admin)
    of_queue, of_commands = QueueAnswers(home, admins), CommandAnswers(home, admins)
    return DaemonLines(home, admins, of_queue, of_commands, RECENT)


async def test_lines_of_all_hosts_are_shown_with_the_missing_hosts(tmp_path):
    lines = answers(tmp_path)
    reply = await lines.answer({"op": "queue.lines", "id": "7"}, CALLER)
    assert [(one["host"], one["daemon"], one["text"]) for one in reply["lines"]] == [
        ("h2", "lim", "placed on h2: lowest"), ("h1", "lbm", "runs as process 5"),
    ]  # fmt: skip
    assert reply["missing"] == {"h3": "down", "h4": "no answer within 5 s"}
    assert (reply["job"], reply["more"], reply["withheld"]) == ("7", False, {})
    (asked,) = lines._home.cluster.asked
    assert (asked.job, asked.user, asked.uid, asked.HasField("uid")) == ("7", NAME, OWN, True)


async def test_the_lim_and_the_dispatcher_of_this_host_are_asked(tmp_path):
    async def answer(request, _caller):
        assert request["op"] == "lines"
        return {"lines": [[5.0, "info", request["job"], "accepted"]], "more": True}

    server = await serve_json(tmp_path / "dispatcher.sock", answer, 0o600)
    try:
        reply = await answers(tmp_path).for_peer(lbm_pb2.LinesRequest(job="7", user="ann"), "h2")
    finally:
        server.close()
    assert [(one.daemon, one.text) for one in reply.lines] == [
        ("lbm", "runs as process 5"), ("dispatcher", "accepted"),
    ]  # fmt: skip
    assert reply.more


@pytest.mark.parametrize(("name", "shown"), [("12", "12"), ("12_7", "12_7"), ("12_[3-5]", "12")])
async def test_an_array_or_one_of_its_tasks_can_be_named(tmp_path, name, shown):
    reply = await answers(tmp_path).answer({"op": "queue.lines", "id": name}, CALLER)
    assert reply["job"] == shown


@pytest.mark.parametrize(
    ("op", "name"), [("queue.lines", "7"), ("queue.lines", "12_7"), ("command.lines", "h2-1")]
)
async def test_another_users_job_is_shown_to_administrators_alone(tmp_path, op, name):
    with pytest.raises(Refusal, match="permission denied") as refused:
        await answers(tmp_path).answer({"op": op, "id": name}, STRANGER)
    assert refused.value.code == "denied"
    lines = answers(tmp_path, is_admin=True)
    reply = await lines.answer({"op": op, "id": name}, STRANGER)
    assert {one["job"] for one in reply["lines"]} == {name}
    assert lines._home.cluster.asked[0].user == ""  # admin.hosts there decides
    mine = await answers(tmp_path).answer({"op": op, "id": name}, CALLER)
    assert mine["job"] == name


async def test_administrators_can_look_while_the_dispatcher_is_away(tmp_path):
    lines = answers(tmp_path, is_admin=True)
    lines._home.queue.found.clear()
    assert (await lines.answer({"op": "queue.lines", "id": "12_7"}, CALLER))["job"] == "12_7"
    with pytest.raises(Unavailable):
        await lines.answer({"op": "queue.lines", "id": "last"}, CALLER)
    lines = answers(tmp_path)
    lines._home.queue.found.clear()
    with pytest.raises(Unavailable):
        await lines.answer({"op": "queue.lines", "id": "12_7"}, CALLER)


async def test_one_job_at_a_time(tmp_path):
    with pytest.raises(Refusal, match="one job at a time"):
        await answers(tmp_path).answer({"op": "queue.lines", "id": "@me"}, CALLER)


@pytest.mark.parametrize(
    ("host", "user", "settings", "withheld"),
    [
        ("h2", "ann", {}, ""),
        ("h2", "", {}, "admin.hosts"),
        ("h2", "", {"admins_on": ("h2",)}, ""),
        ("h2", "ann", {"admission": AdmissionConfig(deny_origins=("h2",))},
         "admission.deny_origins"),
        ("", "", {}, "admin.hosts"),
    ],
)  # fmt: skip
async def test_a_host_is_shown_the_lines_of_whom_it_speaks_for(
    tmp_path, host, user, settings, withheld
):
    lines = answers(tmp_path, **settings)
    reply = await lines.for_peer(lbm_pb2.LinesRequest(job="7", user=user), host)
    assert (reply.withheld, len(reply.lines)) == (withheld, 0 if withheld else 1)


@pytest.mark.parametrize(("later_s", "shown"), [(-1e6, 1), (30.0, 1), (1e6, 0)])
async def test_lines_before_the_job_belong_to_another_that_had_its_id(tmp_path, later_s, shown):
    ((line,), _) = RECENT.of("7", time.time())
    asked = lbm_pb2.LinesRequest(job="7", user="ann", since=line.unix_s + later_s)
    assert len((await answers(tmp_path).for_peer(asked, "h2")).lines) == shown


@pytest.mark.parametrize("job", ["", "\x1b[2J", "x" * 200, "h1-1\n"])
async def test_an_invalid_id_is_refused(tmp_path, job):
    with pytest.raises(PeerError):
        await answers(tmp_path).for_peer(lbm_pb2.LinesRequest(job=job, user="ann"), "h2")


@pytest.mark.parametrize(
    "lie",
    [
        {"unix_s": math.nan}, {"unix_s": math.inf}, {"unix_s": -1.0}, {"daemon": "\x1b[2J"},
        {"level": "loud"}, {"job": "8"},
    ],
)  # fmt: skip
def test_impossible_lines_are_left_out(lie):
    gathered = Gathered()
    gathered.add("h2", "7", lbm_pb2.LinesReply(lines=[said(), said(**lie)]))
    assert len(gathered.answer("7")["lines"]) == 1


def test_the_lines_of_a_host_are_limited():
    gathered = Gathered()
    for host in ("h2", "h3"):
        flood = [said(unix_s=float(at), text="x\n" * 1000) for at in range(5000)]
        gathered.add(host, "7", lbm_pb2.LinesReply(lines=flood, withheld="a\x1b[2J"))
    reply = gathered.answer("7")
    assert reply["more"]
    assert len(reply["lines"]) <= 1000
    assert reply["lines"][-1]["time"] == 4999.0
    assert all(len(one["text"]) <= 500 and one["text"].isprintable() for one in reply["lines"])
    assert reply["withheld"]["h2"] == "a?[2J"


@pytest.mark.parametrize("text", ["x", "x" * 500])
def test_a_host_that_says_much_and_dates_it_ahead_hides_no_other_hosts_lines(text):
    """It had all the room, by as many lines as fit one answer, of the year 2100."""
    gathered = Gathered()
    flood = [said(unix_s=4e9 + at, text=text) for at in range(5000)]
    gathered.add("h2", "7", lbm_pb2.LinesReply(lines=flood))
    gathered.add("h3", "7", lbm_pb2.LinesReply(lines=[said()]))
    gathered.add("h4", "7", lbm_pb2.LinesReply(lines=[said()]))
    reply = gathered.answer("7")
    shown = [one["host"] for one in reply["lines"]]
    assert shown[:2] == ["h3", "h4"]
    assert len(shown) > 100
    assert reply["more"]
