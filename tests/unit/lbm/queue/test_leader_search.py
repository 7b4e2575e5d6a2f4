"""Those who wait for a dispatcher that cannot be reached look for it together."""

import asyncio

import grpc
import pytest

from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry, LbmConfig
from lbd.lbm.queue.leader_search import LeaderSearch, NobodyLeads
from lbd.lbm.session.cluster import Cluster, rates_of_users
from tests.unit.lbm.queue.one_dispatcher import Lim


class Refused:
    def get_state(self, try_to_connect=False):
        return grpc.ChannelConnectivity.TRANSIENT_FAILURE


class Peers:
    metadata = ()

    def channel(self, _host, _target):
        return Refused()


@pytest.mark.parametrize("hosts", [("h2",), ("h2", "h3")])
async def test_a_thousand_who_wait_open_no_thousand_connections(tmp_path, monkeypatch, hosts):
    """The dispatcher closed all connections of their host, whose jobs then lost their leases."""
    opened, all_opened, go_on = [], asyncio.Event(), asyncio.Event()

    async def refusing(address, port):
        opened.append((address, port))
        if len(opened) == len(hosts):
            all_opened.set()
        await go_on.wait()
        raise ConnectionRefusedError

    monkeypatch.setattr(asyncio, "open_connection", refusing)
    own = HostConfig(name="h1", address="10.0.0.1", state_dir=str(tmp_path))
    entries = HostEntry("h2", "10.0.0.2"), HostEntry("h3", "10.0.0.3")
    lbm = LbmConfig(connect_timeout_s=60.0)
    config = Config(host=own, cluster=ClusterConfig(hosts=entries), lbm=lbm)
    search = LeaderSearch(config, Peers(), Cluster(config, Lim(), Peers(), rates_of_users()))
    waiting = [asyncio.create_task(search.find(hosts, "h2", "")) for _ in range(1000)]
    await all_opened.wait()
    waiting.pop().cancel()  # who leaves does not end the search of the others
    await asyncio.sleep(0.01)
    assert len(opened) == len(hosts)
    go_on.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in found} == {NobodyLeads}
    assert len({*map(id, found)}) == len(found)
    assert not search._searches
