"""Where the dispatcher and the other LBMs are thought to be."""

import asyncio

import grpc
import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.errors import Unavailable
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb


class NoPeers:
    """Tells which address was wanted."""

    metadata = ()

    def __init__(self):
        self.wanted = []

    def channel(self, host, target):
        self.wanted.append((host, target))
        raise Unavailable("nobody is there")


class Lim:
    async def call(self, request, timeout_s):
        return {"peers": [{"name": "h3", "lbm": "[fd00::3]:7902"}]}


@pytest.mark.parametrize(
    ("host", "lbm", "dispatcher"),
    [("h1", "[fd00::1]:7902", "[fd00::1]:7903"),
     ("h2", "[fd00::2]:7912", "[fd00::2]:7903"),
     ("h3", "[fd00::3]:7902", "[fd00::3]:7903"),
     ("h4", "10.0.0.4:7902", "10.0.0.4:7903")],
)  # fmt: skip
async def test_addresses_of_both_families(tmp_path, host, lbm, dispatcher):
    own = HostConfig(name="h1", address="fd00::1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "fd00::2", lbm_port=7912), HostEntry("h4", "10.0.0.4"))
    config = Config(
        host=own, cluster=ClusterConfig(hosts=entries), dispatch=DispatchConfig(host=host)
    )
    peers = NoPeers()
    client = DispatcherClient(config, peers, Lim())
    with pytest.raises(Unavailable):
        await client.jobs(pb.JobsAsked())
    with pytest.raises(Unavailable):
        await anext(client.logs(host, pb.LogsRequest()))
    assert peers.wanted == [(host, dispatcher), (host, lbm)]


async def test_the_clusters_settings_say_where_it_is(tmp_path):
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "10.0.0.2"),)
    config = Config(host=own, cluster=ClusterConfig(hosts=entries))
    peers = NoPeers()
    client = DispatcherClient(config, peers, Lim())
    with pytest.raises(Unavailable, match="no queue; `lbctl queue enable HOST`"):
        await client.jobs(pb.JobsAsked())
    assert not client.has_queue.is_set()
    client.follow(["h2"])
    assert client.has_queue.is_set()
    with pytest.raises(Unavailable, match="nobody is there"):
        await client.jobs(pb.JobsAsked())
    assert (peers.wanted, client.leader) == ([("h2", "10.0.0.2:7903")], "h2")
    client.follow(())
    assert (client.hosts, client.leader, client.has_queue.is_set()) == ((), "", False)


class Closed:
    """A call whose channel is closed under it, as of a host that is revoked: gRPC cancels whoever
    reads."""

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise asyncio.CancelledError

    async def read(self):
        raise asyncio.CancelledError

    def cancel(self):
        pass


class ClosedChannel:
    def get_state(self, try_to_connect=False):
        return grpc.ChannelConnectivity.READY

    def unary_stream(self, _method):
        return lambda _data, metadata: Closed()


@pytest.mark.parametrize("hosts", [("h2",), ("h2", "h3")])
async def test_a_closed_channel_ends_a_call_and_nobodys_task(tmp_path, hosts):
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    entries = (HostEntry("h2", "10.0.0.2"), HostEntry("h3", "10.0.0.3"))
    config = Config(host=own, cluster=ClusterConfig(hosts=entries))
    peers = NoPeers()
    peers.channel = lambda _host, _target: ClosedChannel()
    client = DispatcherClient(config, peers, Lim())
    client.follow(hosts)
    with pytest.raises(Unavailable):
        await client.read(Closed(), 60.0)
    with pytest.raises(Unavailable):
        await anext(client.watch(pb.JobsAsked()))
    with pytest.raises(Unavailable):
        await anext(client.logs("h2", pb.LogsRequest()))
    with pytest.raises(Unavailable):
        await anext(client.files("h2", pb.FilesRequest()))
