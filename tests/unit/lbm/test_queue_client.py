"""Where the dispatcher and the other LBMs are thought to be."""

import pytest

from lbd.config import ClusterConfig, Config, HostConfig, HostEntry
from lbd.config_dispatch import DispatchConfig
from lbd.errors import Unavailable
from lbd.lbm.queue_client import QueueClient
from lbd.rpc.gen import dispatch_pb2 as pb


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
    client = QueueClient(config, peers, Lim())
    with pytest.raises(Unavailable):
        await client.jobs(pb.JobsAsked())
    with pytest.raises(Unavailable):
        await anext(client.logs(host, pb.LogsRequest()))
    assert peers.wanted == [(host, dispatcher), (host, lbm)]
