import pytest

from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig
from lbd.lbm.queue.dispatcher_client import DispatcherClient
from tests.unit.lbm.queue.one_dispatcher import Lim, OneDispatcher, PlainPeers


@pytest.fixture
async def dispatcher():
    found = OneDispatcher()
    yield found
    await found.stop()
    found._place.close()


@pytest.fixture
async def client(tmp_path, dispatcher):
    own = HostConfig(name="h1", address="127.0.0.1", state_dir=str(tmp_path))
    queue = DispatchConfig(host="h1", port=dispatcher.port)
    peers = PlainPeers()
    yield DispatcherClient(Config(host=own, dispatch=queue), peers, Lim())
    for channel in peers.channels.values():
        await channel.close()
