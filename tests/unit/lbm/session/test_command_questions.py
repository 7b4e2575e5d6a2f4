"""Who may look at plain commands and end them, and which hosts may speak for a user."""

import asyncio
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.access import AdminConfig, AdmissionConfig
from lbd.config.schema import Config
from lbd.errors import Unavailable
from lbd.lbm.link.user_threads import Threads
from lbd.lbm.session.command_questions import AT_ONCE, SENDING_MAX, CommandAnswers, over
from lbd.lbm.usage.record import Usage
from lbd.load.process_table import task_of
from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal
from lbd.net.gen import lbm_pb2 as pb

NO_RULES = AdmissionConfig()
ANN, ROOT = ("ann", 1000), ("root", 0)


def answers_of(user, uid, admission=NO_RULES):
    """Returns h1's answers about one ended command of this user; h3 is one of its admin.hosts."""
    config = Config()
    usage = Usage(2.0, 1.0, 0.0, 1.0, 1.0, user, "make", "h1", "h2", False, True, False, False,
                  "done", uid, "h1-26")  # fmt: skip

    async def ask(_question):
        return 26, usage

    home = SimpleNamespace(
        config=replace(
            config, host=replace(config.host, name="h1"), admin=AdminConfig(hosts=("h3",))
        ),
        rules=SimpleNamespace(config=Config(admission=admission)),
        jobs=SimpleNamespace(find=lambda _job: None),
        usage=SimpleNamespace(ask=ask),
    )
    return CommandAnswers(home, SimpleNamespace(include=lambda _caller: False))


@pytest.mark.parametrize(
    ("owner", "asker", "is_admin", "host", "may"),
    [
        (ANN, ANN, False, "h2", True),
        (ANN, ("bob", 1001), False, "h2", False),
        (ANN, ROOT, True, "h2", False),
        (ANN, ROOT, True, "h3", True),
        (ANN, ROOT, True, "h1", True),
        (ROOT, ROOT, True, "h2", True),
        (ROOT, ANN, False, "h3", False),
    ],
)
async def test_a_host_speaks_for_its_users_and_not_for_everybodys(
    owner, asker, is_admin, host, may
):
    asked = pb.CommandRequest(
        id="h1-26", verb="show", user=asker[0], uid=asker[1], is_admin=is_admin
    )
    reply = await answers_of(*owner).of_own(asked, host)
    assert reply.code == ("" if may else "denied")
    assert reply.HasField("job") == may
    if not (may or is_admin):
        assert reply.error == "permission denied: h1-26 is not yours"


@pytest.mark.parametrize("verb", ["show", "kill", "wait"])
async def test_a_host_that_the_owner_does_not_admit_speaks_for_no_user(verb):
    asked = pb.CommandRequest(id="h1-26", verb=verb, user="ann", uid=1000)
    closed = answers_of(*ANN, AdmissionConfig(deny_origins=("h4", "h2")))
    reply = await closed.of_own(asked, "h4")
    assert (reply.code, reply.HasField("job")) == ("denied", False)
    assert "admission.deny_origins" in reply.error
    assert (await closed.of_own(asked, "h1")).code != "denied"
    assert (await closed.of_own(asked, "h2")).code != "denied"  # where it has run
    assert (await closed.of_own(asked, "h3")).code != "denied"  # one of admin.hosts


async def test_who_asks_about_very_many_keeps_no_other_from_the_accounting():
    """It has one thread, and 64 questions of one user kept everybody else's out."""
    answers, asking, goes_on = answers_of(*ANN), 0, asyncio.Event()
    ask = answers._home.usage.ask

    async def slow(question):
        nonlocal asking
        asking += 1
        await goes_on.wait()
        return await ask(question)

    answers._home.usage.ask = slow

    def questions(uid, host, count):
        asked = pb.CommandRequest(id="h1-26", verb="show", user="ann", uid=uid)
        return [asyncio.create_task(answers.of_own(asked, host)) for _ in range(count)]

    tasks = questions(1001, "h1", 100) + questions(1000, "h2", 100)
    await asyncio.sleep(0.01)
    assert asking == 2 * AT_ONCE
    tasks += questions(1000, "h1", 1)
    await asyncio.sleep(0.01)
    assert asking == 2 * AT_ONCE + 1
    goes_on.set()
    assert [reply.code for reply in await asyncio.gather(*tasks)].count("") == 201


@pytest.mark.parametrize("job", ["\x1b[2J", "\ud800", "x" * 200, "", "h1-1\n"])
async def test_an_impossible_id_is_reported_in_one_line(job):
    with pytest.raises(Refusal) as refused:
        await answers_of(*ANN).answer({"op": "command.show", "id": job}, Caller(0, 0, 1))
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 120


@pytest.mark.parametrize(
    ("proven", "claimed", "said"),
    [
        ("h2", "h9", "ann@h2"),
        ("", "h2", "ann@h2"),  # a lab, where the queue believes what a host says, too
        ("", "", "ann"),
        ("", "h2\n" + "x" * 999, None),
    ],
)
def test_who_had_a_command_ended_is_said_with_the_host(proven, claimed, said):
    answers, job = killable()
    asked = pb.CommandRequest(id="h1-26", verb="kill", user="ann", signal=15, host=claimed)
    answers._kill(job, asked, proven)
    assert job.killed_by == said or (said is None and len(job.killed_by) < 300)
    assert job.killed_by.isprintable()


@pytest.mark.parametrize(("signals", "must_end"), [((15,), False), ((9,), True), ((9, 15), True)])
def test_a_term_alone_may_mean_anything_but_does_not_undo_a_kill(signals, must_end):
    answers, job = killable()
    for number in signals:
        asked = pb.CommandRequest(id="h1-26", verb="kill", user="ann", signal=number)
        answers._kill(job, asked, "h1")
    assert job.must_end == must_end


def killable():
    job = SimpleNamespace(id="h1-26", killed_by="", must_end=False)
    answers = answers_of(*ANN)
    answers._home.jobs.running = {"h1-26": job}
    answers._home.commands = answers._home.staying = {}
    return answers, job


class AsUser:
    """That of a keeper, as the LBM's own account."""

    is_needed = False

    def __init__(self):
        self.done = []

    async def work(self, uid, *words):
        self.done.append((uid, *words))


@pytest.mark.skipif(
    os.geteuid() != 0, reason="an LBM that does not run as root signals its own user alone"
)
async def test_an_lbm_that_is_root_signals_no_process_as_root():
    """A user's command may have become another user, and its children run as anyone they like."""
    answers, as_user = answers_of(*ANN), AsUser()
    answers._home.looker = SimpleNamespace(as_user=as_user)
    asked = []  # the user may hold up who reads when their process began
    answers._home.threads = SimpleNamespace(of=lambda uid: asked.append(uid) or Threads())
    job, us = SimpleNamespace(id="h1-27", uid=1000), SimpleNamespace(pid=os.getpid(), is_there=True)
    await answers._send_here(job, us, 15, True)
    ticks = task_of(us.pid).started_ticks
    assert as_user.done == [(1000, b"signal", *(b"%d" % n for n in (us.pid, ticks, 15, 1)))]
    us.is_there = False  # it has ended meanwhile: what has its number now may be another's
    await answers._send_here(job, us, 15, True)
    assert (len(as_user.done), asked) == (1, [1000, 1000])


async def test_signals_that_do_not_arrive_are_so_many_and_no_more(monkeypatch):
    """Each is a process of the user's, who may stop it."""
    answers, never = answers_of(*ANN), asyncio.Event()
    monkeypatch.setattr(answers, "_send_here", lambda *_: never.wait())
    own = SimpleNamespace(pid=os.getpid(), is_there=True)
    answers._home.commands = {}
    answers._home.staying = {"h1-27": own, "h1-28": own}
    mine, bobs = (SimpleNamespace(id=f"h1-{n}", uid=1000 + n) for n in (27, 28))
    for _ in range(SENDING_MAX):
        answers._send(mine, 15, whole_tree=True)
    with pytest.raises(Refusal, match="too many signals"):
        answers._send(mine, 15, whole_tree=True)
    answers._force(mine)  # nobody is there to be told
    answers._send(bobs, 15, whole_tree=True)
    for sending in list(answers._sending):
        sending.cancel()


@pytest.mark.parametrize(
    "reply",
    [
        pb.CommandReply(),
        pb.CommandReply(job=pb.JobRecord(id="h1-7", origin="h1")),
        pb.CommandReply(job=pb.JobRecord(id="@me", origin="h2")),
        pb.CommandReply(job=pb.JobRecord(id="h2-7", origin="h2", started=float("nan"))),
    ],
    ids=["nothing", "of another host", "of the queue", "of no time"],
)
async def test_a_host_answers_about_a_job_of_its_own_or_not_at_all(reply):
    answers = answers_of(*ANN)

    async def peer(_host):
        return SimpleNamespace(is_down=False)

    async def ask(*_, is_order):
        return reply

    answers._home.cluster = SimpleNamespace(peer=peer, ask=ask)
    question = {"op": "command.show", "id": "h2-7"}
    with pytest.raises(Unavailable, match="malformed answer about h2-7"):
        await answers.answer(question, Caller(0, 0, 1))
    reply.CopyFrom(pb.CommandReply(job=pb.JobRecord(id="h2-7", origin="h2")))
    assert (await answers.answer(question, Caller(0, 0, 1)))["job"]["id"] == "h2-7"
    reply.CopyFrom(pb.CommandReply(error="no", code="x" * 9999))
    with pytest.raises(Refusal) as refused:
        await answers.answer(question, Caller(0, 0, 1))
    assert refused.value.code == "usage"


@pytest.mark.parametrize("verb", ["show", "kill", "wait"])
async def test_an_order_to_another_host_has_its_users_share_for_orders(verb):
    answers, asked = answers_of(*ANN), []

    async def peer(_host):
        return SimpleNamespace(is_down=False)

    async def ask(uid, *_, is_order):
        asked.append((uid, is_order))
        return pb.CommandReply(job=pb.JobRecord(id="h2-7", origin="h2"))

    answers._home.cluster = SimpleNamespace(peer=peer, ask=ask)
    await answers.answer({"op": f"command.{verb}", "id": "h2-7"}, Caller(0, 1000, 1))
    assert asked == [(1000, verb == "kill")]


@pytest.mark.parametrize(("state", "said"), [
    ("unknown", "h1-7 is not watched any more: lbd on h1 was stopped while it ran; if it still"
     " does, end it there by its pid"),
    ("done", "h1-7 has ended"), (None, "h1-7 has ended"),
])  # fmt: skip
def test_of_a_command_that_nobody_saw_end_it_is_not_said_that_it_has(state, said):
    assert str(over("h1-7", state, "h1")) == said
