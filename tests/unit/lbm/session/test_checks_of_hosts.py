"""Another host's questions whether a command could start here: their number is limited, too."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.keeper.local_account import Admit, LocalUser, Refuse
from lbd.lbm.keeper_link import SpawnFailed
from lbd.lbm.session.cluster import ClusterHost, Unreached
from lbd.lbm.session.explain import CHECKS, Checks
from lbd.local.budget import Budget
from lbd.local.caller import Caller
from lbd.local.json_socket import Refusal
from lbd.net.gen import lbm_pb2

LONG = 1 << 20
BUDGET = 8 * LONG
ANN, BOB = 1001, 1002


class Keeper:
    """It does not answer yet."""

    def __init__(self):
        self.asked, self.answers = 0, asyncio.Event()
        self.hangs_for = (ANN,)

    async def ask(self, order, timeout_s):
        self.asked += 1
        self.order = order
        if order.user[0] in self.hangs_for:
            await self.answers.wait()


def host():
    async def admit(user, uid, origin):
        return Admit(LocalUser(user, uid, uid, (uid,)))

    config, requests = Config(), Budget(BUDGET, 2 * BUDGET)
    return SimpleNamespace(
        config=config, rules=SimpleNamespace(config=config), admit=admit, requests=requests,
        link=Keeper(),
    )  # fmt: skip


def question(origin, uid=ANN, size=LONG, **more):
    request = lbm_pb2.RunRequest(
        job_id="0", origin=origin, user=f"user{uid}", uid=uid, argv=[b"x" * size], directory=b"/",
        **more,
    )  # fmt: skip
    return request.SerializeToString()


async def test_long_ones_that_wait_are_within_the_budget_of_their_host():
    """Four are examined at once, but any number of them waited, each as long as it liked."""
    here = host()
    checks = Checks(here, None)
    waiting = [asyncio.create_task(checks.for_peer(question("h2"), "h2")) for _ in range(7)]
    async with asyncio.timeout(20):
        while here.link.asked < CHECKS:  # noqa: ASYNC110  # it is told of nothing
            await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="too many long requests at once"):
            await checks.for_peer(question("h2"), "h2")
        other = asyncio.create_task(checks.for_peer(question("h3"), "h3"))
        here.link.answers.set()
        replies = await asyncio.gather(*waiting, other)
    assert all(reply.able for reply in replies)
    assert here.requests.held == 0


async def test_who_looks_into_a_directory_that_hangs_keeps_nobody_else_waiting():
    here = host()
    checks = Checks(here, None)
    hanging = [asyncio.create_task(checks.for_peer(question("h2", ANN, 1), "h2")) for _ in range(9)]
    async with asyncio.timeout(20):
        while here.link.asked < CHECKS:  # noqa: ASYNC110  # it is told of nothing
            await asyncio.sleep(0)
        assert (await checks.for_peer(question("h2", BOB, 1), "h2")).able
        here.link.answers.set()
        await asyncio.gather(*hanging)


async def test_a_question_runs_none_of_our_programs_either():
    """A step of a workdir is not a program, but a child of the keeper packs or unpacks files."""
    here = host()
    step = lbm_pb2.WorkdirStep(step="pack", fetch=[b"x"])
    await Checks(here, None).for_peer(question("h2", BOB, 1, workdir=step), "h2")
    assert here.link.order.check
    assert not here.link.order.worker


class Home:
    """This host asks; h2 and h3 are `answers`, and the LIM would choose the one it is asked for."""

    def __init__(self, *, is_up=True, **answers):
        self.config = Config()
        self.answers = {"h2": lbm_pb2.CheckReply(able=True)} | answers
        self.looker = self.unshared = None
        self.eligible = self.lim = self.cluster = self
        self.peers = [ClusterHost(n, "", is_up, not is_up) for n in sorted(self.answers)]

    def kept_by_owner(self, argv):
        return False

    def expected(self, uid, key):
        return None, 0

    async def others(self):
        return self.peers

    async def ask(self, _uid, host, method, request, kind, timeout_s):
        answer = self.answers[host.name]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def call(self, question, timeout_s):
        left = [name for name in ("h3", "h2") if name not in (question.get("excluded") or ())]
        if not left:
            raise Refusal("all other hosts are excluded", "unavailable")
        wanted = question.get("wanted")
        rows = [{"name": name, "willing": name in left, "why": "-x"} for name in ("h3", "h2")]
        return {"verdict": "there", "host": wanted or left[0], "candidates": rows}


async def explained(home, wanted=None, excluded=()):
    question = {"program": "cc", "command": ["cc"], "directory": "/", "path": "", "staged": True}
    return await Checks(None, home).explain(
        question | {"wanted": wanted, "excluded": [*excluded]}, Caller(1, ANN, 1)
    )


@pytest.mark.parametrize("is_up", [True, False])
async def test_a_command_does_not_go_to_a_host_whose_lbm_cannot_be_reached(is_up):
    home = Home(is_up=is_up, h3=Unreached("its LBM cannot be reached"))
    with pytest.raises(Refusal, match=r"^h3: its LBM cannot be reached$"):
        await explained(home, "h3")


async def test_without_a_named_host_the_next_best_is_shown():
    home = Home(h3=Unreached("its LBM cannot be reached"))
    reply = await explained(home)
    assert reply["host"] == "h2"
    assert reply["candidates"][0]["why"] == "its LBM cannot be reached"


@pytest.mark.parametrize(
    ("excluded", "before"),
    [([], ""), (["h3"], "all other hosts are excluded; ")],
)
async def test_hosts_that_cannot_begin_it_are_not_called_excluded(excluded, before):
    """Its user had excluded none."""
    able = {} if excluded else {"h3": lbm_pb2.CheckReply(reason="no cc", phase="exec")}
    home = Home(h2=lbm_pb2.CheckReply(reason="no cc", phase="exec"), **able)
    with pytest.raises(Refusal, match=rf"^{before}h2: .*no cc"):
        await explained(home, excluded=excluded)


async def test_what_the_named_host_did_not_say_is_said():
    home = Home(h3=Unavailable("no answer within 4 s"))
    reply = await explained(home, "h3")
    assert reply["unknown"].startswith("h3 did not say")
    assert reply["unknown"].endswith(": no answer within 4 s")
    assert "unknown" not in await explained(home)
    assert "unknown" not in await explained(home, "h2")


LATER = "commands of user1001 are not allowed here (admission.users); everybody may from 18:00"


def closed(reason=LATER, phase="not-yet"):
    return lbm_pb2.CheckReply(reason=reason, phase=phase)


async def nobody(own=None, only=None, excluded=(), **answers):
    """`own`: why this host, h1, refuses; None: it does not."""
    home = Home(**answers)
    home.config = replace(home.config, host=HostConfig(name="h1"))
    checks = Checks(None, home)

    async def check(_request):
        return own if own is not None else lbm_pb2.CheckReply(able=True)

    checks._check = check
    question = {"host": only, "excluded": list(excluded)}
    return await checks.nobody_admits(question, Caller(1, ANN, 1))


async def test_a_prediction_says_that_no_hosts_rules_let_the_user_in():
    shut = closed()
    assert await nobody(shut, h2=shut, h3=shut) == f"h1, h2, h3: {LATER}"
    drained = closed("h3 is drained", "drained")
    assert await nobody(shut, h2=shut, h3=drained) == f"h1, h2: {LATER}; h3: h3 is drained"
    assert await nobody(drained, h2=drained, h3=drained) == "h1, h2, h3: h3 is drained"


async def test_a_prediction_says_from_when_on_closed_hosts_take_jobs():
    """It was `no host that accepts jobs now has 1 slot`."""
    until = "no commands of other hosts until {}:00 (admission.when)"
    one, other = (closed(until.format(at), "drained") for at in (22, 23))
    assert await nobody(one, h2=other) == f"h1: {one.reason}; h2: {other.reason}"
    assert await nobody(one, h2=other, only="h1") == f"h1: {one.reason}"
    assert await nobody(one, h2=lbm_pb2.CheckReply(able=True)) == ""


@pytest.mark.parametrize(("command", "asked"), [(["uname", "-n"], b"uname"), ([], b"/")])
async def test_a_prediction_for_a_command_goes_by_the_rules_on_programs(command, asked):
    """A start at once was promised of a job that was refused at once."""
    seen = []

    async def answer(request):
        seen.append((*request.argv, *request.environment))
        return closed("uname is not allowed here (admission.programs)", "admission")

    home = Home()
    home.config = replace(home.config, host=HostConfig(name="h1"))
    checks = Checks(None, home)
    checks._check = answer
    question = {"host": "h1", "command": command, "path": "/bin"}
    said = await checks.nobody_admits(question, Caller(1, ANN, 1))
    assert said == "h1: uname is not allowed here (admission.programs)"
    assert seen == [(asked, b"PATH=/bin")]


@pytest.mark.parametrize(
    "h3",
    [
        lbm_pb2.CheckReply(able=True),
        Unavailable("no answer within 4 s"),
        closed("/: Permission denied", "exec"),
    ],
)
async def test_one_host_that_lets_the_user_in_or_may_is_enough(h3):
    shut = closed()
    assert await nobody(shut, h2=shut, h3=h3) == ""
    assert await nobody(shut, h2=shut, h3=h3, excluded=["h3"]) == f"h1, h2: {LATER}"
    assert await nobody(h2=shut, h3=h3, only="h2") == f"h2: {LATER}"
    assert await nobody(shut, h2=shut, h3=h3, excluded=["h1", "h2", "h3"]) == ""


@pytest.mark.parametrize(
    ("argv", "forbids", "said"),
    [
        (b"uname", SpawnFailed("admission.programs", 0), "admission"),
        (b"/", SpawnFailed("exec", 13), "not-yet"),  # asked about the user alone
    ],
)
async def test_a_program_that_no_hour_admits_is_refused_for_good(argv, forbids, said):
    """`lbrun -H` and `-d` were told of the hours of everybody, and refused then."""

    async def not_now(user, uid, origin):
        return Refuse(LATER, wait_s=60.0, then=Admit(None))

    async def ask(order, timeout_s):
        raise forbids

    here = host()
    here.rules.config = Config(admission=AdmissionConfig(programs=("/usr/bin/gcc",)))
    here.admit, here.link.ask = not_now, ask
    here.phase_of = lambda refused: "not-yet" if refused.wait_s else "admission"
    request = lbm_pb2.RunRequest(job_id="0", origin="h2", user="bob", uid=BOB, argv=[argv],
                                 directory=b"/")  # fmt: skip
    reply = await Checks(here, None).for_peer(request.SerializeToString(), "h2")
    assert (reply.phase, reply.for_good) == (said, said == "admission")
    assert (reply.reason == LATER) == (said == "not-yet")
