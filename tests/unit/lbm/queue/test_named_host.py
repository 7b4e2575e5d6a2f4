"""A permanent refusal by a named host is known before the job is queued."""

from dataclasses import dataclass, field

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.errors import Unavailable
from lbd.lbm.queue.named_host import why_refused
from lbd.lbm.session.cluster import ClusterHost
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.gen import lbm_pb2

DENIED = lbm_pb2.CheckReply(reason="commands of ann are not\nallowed here", for_good=True)
REASON = "commands of ann are not allowed here"


@dataclass
class Home:
    """This host, and the only other one."""

    answer: lbm_pb2.CheckReply | None = field(default_factory=lambda: DENIED)
    is_up: bool = True
    asked: list[lbm_pb2.RunRequest] = field(default_factory=list)
    config: Config = field(default_factory=Config)

    @property
    def cluster(self):
        return self

    async def peer(self, name):
        return ClusterHost(name, "192.0.2.2:1", self.is_up, not self.is_up)

    async def ask(self, _uid, peer, method, request, reply, timeout_s):
        self.asked.append(request)
        if self.answer is None:
            raise Unavailable("no answer")
        return self.answer


def submission(only="h2", **more):
    run = lbm_pb2.RunRequest(
        job_id="1", origin="h1", user="ann", uid=1000, argv=[b"cc", b"-c"], directory=b"/home/ann",
        environment=[b"PATH=/bin", b"SECRET=x"],
    )  # fmt: skip
    spec = pb.StoredSpec(run_request=run.SerializeToString())
    return pb.SubmitRequest(only=only, spec=spec, **more)


async def test_it_is_asked_about_the_user_and_the_program():
    home = Home()
    assert await why_refused(home, submission()) == (f"h2: {REASON}", True)
    (asked,) = home.asked
    assert (asked.user, asked.uid, asked.origin, list(asked.argv)) == ("ann", 1000, "h1", [b"cc"])
    assert list(asked.environment) == [b"PATH=/bin"]


@pytest.mark.parametrize(
    "home",
    [
        Home(lbm_pb2.CheckReply(able=True)), Home(None), Home(is_up=False),
        Home(lbm_pb2.CheckReply(reason="no commands until 19:00", phase="drained")),
        Home(lbm_pb2.CheckReply(reason="h2 is drained", phase="admission")),
        Home(lbm_pb2.CheckReply(reason="cc: No such file or directory", phase="exec")),
    ],
)  # fmt: skip
async def test_a_temporary_or_unknown_problem_is_left_to_the_queue(home):
    assert await why_refused(home, submission()) == ("", False)


async def test_a_host_that_admits_the_user_at_other_hours_says_so_at_once():
    """The job waited until then, and its user was told nothing."""
    home = Home(lbm_pb2.CheckReply(reason=f"{REASON}; everybody may from 18:00", phase="not-yet"))
    said = await why_refused(home, submission())
    only = "it may run only on h2 (-H), which refuses it for now"
    assert said == (f"{only}: {REASON}; everybody may from 18:00", False)


async def test_this_host_is_asked_like_any_other():
    """Its own user's job was queued, waited for a slot, and failed."""
    home = Home(config=Config(host=HostConfig(name="h2")))
    assert await why_refused(home, submission()) == (f"h2: {REASON}", True)


@pytest.mark.parametrize(
    "asked",
    [submission(""), submission(after=["ok:3"]), submission(not_before=5.0), submission(key="k")],
)
async def test_a_job_that_starts_anywhere_or_later_or_is_in_the_queue_is_not_asked_about(asked):
    home = Home()
    assert await why_refused(home, asked) == ("", False)
    assert not home.asked
