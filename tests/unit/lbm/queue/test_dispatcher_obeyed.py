"""Which dispatcher an LBM obeys, and how long it waits for an answer."""

import asyncio
from types import SimpleNamespace

import grpc
import grpc.aio
import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import ClusterConfig, Config, HostConfig, HostEntry
from lbd.errors import Unavailable
from lbd.lbm.queue import dispatcher_client
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from lbd.net.gen import dispatch_pb2 as pb
from lbd.net.question import Unanswered
from tests.unit.lbm.queue.one_dispatcher import Lim, OneDispatcher, PlainPeers


async def test_a_host_that_is_no_longer_named_gives_no_more_orders(tmp_path):
    """An LBM stayed with a dispatcher for as long as that answered, whatever the settings said."""

    async def work(_, context):
        await context.write(b"order")
        await asyncio.Event().wait()

    server = grpc.aio.server()
    methods = {"Work": grpc.stream_stream_rpc_method_handler(work)}
    service = grpc.method_handlers_generic_handler("lbd.v1.Dispatch", methods)
    server.add_generic_rpc_handlers([service])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    hosts = tuple(HostEntry(name, "127.0.0.1") for name in ("h2", "h3"))
    config = Config(
        host=own, cluster=ClusterConfig(hosts=hosts), dispatch=DispatchConfig(host="h2", port=port)
    )
    client = DispatcherClient(config, PlainPeers(), Lim())
    try:
        async with asyncio.timeout(20):
            call = await client.work()
            assert await client.read(call, 30.0) == b"order"
            client.follow(["h2", "h3"])
            assert not call.done()
            reading = asyncio.create_task(client.read(call, 30.0))
            client.follow(["h3"])
            with pytest.raises(Unanswered):
                await reading
    finally:
        await server.stop(None)


@pytest.mark.parametrize("is_watched", [False, True])
async def test_an_array_may_take_long_to_be_queued(tmp_path, monkeypatch, is_watched):
    """100,000 tasks that each wait for another: "does not answer", though they were queued."""
    monkeypatch.setattr(dispatcher_client, "ASK_S", 0.0)
    dispatcher, peers = OneDispatcher(), PlainPeers()
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    queue = DispatchConfig(host="h1", port=dispatcher.port)
    client = DispatcherClient(Config(host=own, dispatch=queue), peers, Lim())
    submit = client.submit_and_watch if is_watched else client.submit
    await dispatcher.start()
    try:
        assert await submit(pb.SubmitRequest(user="ann", is_array=True))
        with pytest.raises(Unavailable, match="does not answer"):
            await submit(pb.SubmitRequest(user="ann"))
    finally:
        await peers.channels.popitem()[1].close()
        await dispatcher.stop()
        dispatcher._place.close()


class Named:
    """A client of h1 and h2 whose connections take their time: until something has happened."""

    def __init__(self, tmp_path, monkeypatch, *named):
        own = HostConfig(name="h9", address="127.0.0.1", state_dir=str(tmp_path))
        self.client = DispatcherClient(Config(host=own), PlainPeers(), Lim())
        self.client.follow(named)
        self.meanwhile = lambda: None
        self.asked = []
        monkeypatch.setattr(self.client._search, "_reach", self._reach)
        monkeypatch.setattr(self.client._search, "_channel_to", self._channel_to)

    async def _reach(self, host, ready):
        await asyncio.sleep(0)
        self.meanwhile()
        ready[host] = await self._channel_to(host)

    async def _channel_to(self, host):
        def opening(metadata):
            self.asked.append(host)
            return SimpleNamespace(cancel=lambda: self.asked.append("cancelled"))

        state = grpc.ChannelConnectivity.CONNECTING
        return SimpleNamespace(
            get_state=lambda **_: state, stream_stream=lambda _: opening, host=host
        )


@pytest.mark.parametrize("before", [["h2"], ["h2", "h3"]])
async def test_no_orders_come_from_a_host_that_was_named_until_it_was_reached(
    tmp_path, monkeypatch, before
):
    """Its handshake took until the settings named another, as whose stream it then counted."""
    scene = Named(tmp_path, monkeypatch, *before)
    scene.meanwhile = lambda: scene.client.follow(["h1"])
    with pytest.raises(Unavailable):
        await scene.client.work()
    assert (scene.client.leader, scene.asked) == ("h1", [])
    await scene.client.work()
    assert (scene.client.obeyed, scene.asked) == ("h1", ["h1"])
    scene.client.follow(["h1"])
    assert scene.asked == ["h1"], "an honest stream was cancelled again and again"


async def test_the_stream_counts_as_that_of_the_host_it_goes_to(tmp_path, monkeypatch):
    scene = Named(tmp_path, monkeypatch, "h1", "h2")
    scene.meanwhile = lambda: setattr(scene.client, "leader", "h2")
    monkeypatch.setattr(scene.client, "leads", lambda _: None)
    await scene.client.work()
    assert scene.asked == [scene.client.obeyed]
