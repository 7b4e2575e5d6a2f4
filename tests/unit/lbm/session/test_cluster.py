"""Where the other hosts are, and how a question to one of them ends."""

import asyncio
from dataclasses import replace
from functools import partial

import grpc
import grpc.aio
import pytest

from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.errors import Unavailable
from lbd.lbm.session.cluster import PATIENCE_S, Cluster, ClusterHost, NotInCluster, rates_of_users
from lbd.lbm.session.cluster import USER_SHARE as SHARE
from lbd.lbm.session.host_questions import BURST, QUESTIONS_PER_S
from lbd.local.json_socket import Refusal
from lbd.local.rate_limit import Rates
from lbd.net.gen import lbm_pb2 as pb

ROWS = [
    {"name": "h1", "lbm": "10.0.0.1:7902", "state": "up"},
    {"name": "h2", "lbm": "10.0.0.2:7902", "state": "up"},
    {"name": "h3", "lbm": "10.0.0.3:7902", "state": "late"},
    {"name": "h4", "lbm": "10.0.0.4:7902", "state": "down"},
    "no row",
]
H2 = ClusterHost("h2", "10.0.0.2:7902", is_up=True, is_down=False)
H3 = ClusterHost("h3", "10.0.0.3:7902", is_up=True, is_down=False)
ANN, BOB = 1001, 1002


class Lim:
    async def call(self, request, timeout_s):
        return {"peers": ROWS}


class Peers:
    """All of them give the same answer."""

    metadata = ()

    def __init__(self, answer=b""):
        self.answer, self.asked = answer, []

    def channel(self, name, target):
        self.asked.append((name, target))
        return self

    def unary_unary(self, method):
        async def call(data, metadata):
            self.asked.append((method, data))
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer

        return call


def failure(code, details=""):
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def cluster(peers=None):
    entries = (HostEntry("h9", "10.0.0.9", lbm_port=7912),)
    config = Config(host=HostConfig(name="h1"), cluster=ClusterConfig(hosts=entries))
    return Cluster(config, Lim(), peers, rates_of_users())


async def test_this_host_can_be_asked_like_any_other():
    own = ClusterHost("h1", ":7902", is_up=True, is_down=False)
    assert await cluster().peer("h1") == own


async def test_the_other_hosts():
    others = await cluster(Peers()).others()
    assert [(host.name, host.is_up, host.is_down) for host in others] == [
        ("h2", True, False), ("h3", False, False), ("h4", False, True),
    ]  # fmt: skip
    assert await cluster(None).others() == []


async def test_a_host_by_its_name():
    assert await cluster().peer("h2") == H2
    with pytest.raises(Refusal, match="no host 'h7' in this cluster"):
        await cluster().peer("h7")


async def test_the_configuration_is_preferred_to_the_lim():
    assert await cluster().lbm_of("h9") == "10.0.0.9:7912"
    assert await cluster().lbm_of("h2") == "10.0.0.2:7902"
    with pytest.raises(NotInCluster, match="host h7 is not in this cluster"):
        await cluster().lbm_of("h7")


async def test_an_answer():
    peers = Peers(pb.JobsReply(jobs=[pb.JobRecord(id="h2-1")]).SerializeToString())
    request = pb.JobsRequest(all=True)
    reply = await cluster(peers).ask(ANN, H2, "Jobs", request, pb.JobsReply, 1.0)
    assert [job.id for job in reply.jobs] == ["h2-1"]
    assert peers.asked == [
        ("h2", "10.0.0.2:7902"), ("/lbd.v1.Lbm/Jobs", request.SerializeToString()),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"\xff", "its answer is not a JobsReply"),
        (failure(grpc.StatusCode.DEADLINE_EXCEEDED), "no answer within 1 s"),
        (failure(grpc.StatusCode.UNAVAILABLE), "its LBM cannot be reached"),
        (failure(grpc.StatusCode.UNIMPLEMENTED), "its release does not know this question"),
        (failure(grpc.StatusCode.ABORTED, "a\x1b[2Jb"), "a?[2Jb"),
    ],
)
async def test_why_there_is_no_answer(answer, reason):
    with pytest.raises(Unavailable) as found:
        await cluster(Peers(answer)).ask(ANN, H2, "Jobs", pb.JobsRequest(), pb.JobsReply, 1.0)
    assert str(found.value) == reason


async def test_a_host_without_a_key_asks_nobody():
    with pytest.raises(Unavailable, match="no credentials for other hosts"):
        await cluster(None).ask(ANN, H2, "Jobs", pb.JobsRequest(), pb.JobsReply, 1.0)


class RatesNow(Rates):
    """No time passes."""

    def turn_s(self, key, _now_s, patience_s, turns=1.0):
        return super().turn_s(key, 100.0, patience_s, turns)


async def test_who_asks_a_host_without_end_leaves_most_of_its_answers_to_others():
    """That host counts the questions of all users of this one together."""
    found = replace(cluster(Peers()), rates=RatesNow(SHARE * QUESTIONS_PER_S, SHARE * BURST))
    show, kill = (pb.CommandRequest(verb=verb) for verb in ("show", "kill"))
    command = partial(found.ask, method="Command", reply=pb.CommandReply, timeout_s=9.0)
    asks = [asyncio.create_task(command(ANN, H2, request=show)) for _ in range(2000)]
    for _ in range(10):
        await asyncio.sleep(0)
    refused = [one for one in asks if one.done() and one.exception()]
    assert len(asks) - len(refused) == SHARE * (BURST + PATIENCE_S * QUESTIONS_PER_S)
    assert "too often; try again later" in str(refused[0].exception())
    for one in asks:
        one.cancel()
    assert await command(BOB, H2, request=show) == pb.CommandReply()
    assert await command(ANN, H3, request=show) == pb.CommandReply(), "another host"
    assert await command(ANN, H2, request=kill, is_order=True) == pb.CommandReply()
