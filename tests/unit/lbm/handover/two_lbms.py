"""Two LBMs that are restarted while they talk: the real code on a simulated network and clock.

The real parts are how streams are opened, paused, written down, adopted and resumed. A directory
for `--send` stands for each command: it exists as long as its stream does, and receives what is
sent to it. Each step on the network takes a random moment, from `rng`.
"""

import asyncio
import selectors
from types import SimpleNamespace

import grpc
import grpc.aio

from lbd.config.schema import Config
from lbd.keeper.local_account import Admit
from lbd.lbm.core.jobs import Jobs
from lbd.lbm.core.slots import Slots
from lbd.lbm.handover.adoption import Adoption, parse
from lbd.lbm.handover.fds import Given
from lbd.lbm.handover.records import FarRun
from lbd.lbm.handover.saving import come_to_rest, write_down
from lbd.lbm.inbound.executions import Executions
from lbd.lbm.link import wire as tags
from lbd.lbm.link.accepted_links import AcceptedLinks, serve_stream
from lbd.lbm.link.opened_links import PeerLinks
from lbd.lbm.staging.workdirs import FilesRefused
from lbd.local.budget import Budget
from lbd.local.rate_limit import Rates
from lbd.net.gen import lbm_pb2
from lbd.net.gen.handover_pb2 import Handover

NAMES = ("h1", "h2")
STEP_S = 0.02  # maximum, for one step on the network
LATE_S = 30.0


class Clock(asyncio.SelectorEventLoop):
    """Nobody waits: the time until the next event passes at once."""

    def __init__(self):
        super().__init__(Selector(self))
        self.skipped_s = 0.0

    def time(self):
        return self.skipped_s


class Selector(selectors.SelectSelector):
    def __init__(self, clock):
        super().__init__()
        self._clock = clock

    def select(self, timeout=None):
        assert timeout is not None, "nothing will ever happen any more"
        self._clock.skipped_s += timeout
        return super().select(0)


async def for_ever():
    await asyncio.get_running_loop().create_future()


class Call:
    """One gRPC stream with both its ends; `near` and `far` are LBMs, as long as they live."""

    def __init__(self, world, near, far, metadata):
        self.world, self.near, self.far, self.metadata = world, near, far, metadata
        self.to_far, self.to_near = asyncio.Queue(), asyncio.Queue()
        self.how = None
        self.announced = asyncio.Event()

    def end(self, code, details):
        if self.how is None:
            self.how = code, details
            self.announced.set()
            for queue in (self.to_far, self.to_near):
                queue.put_nowait(grpc.aio.EOF)

    async def step(self, end):
        await asyncio.sleep(self.world.rng.uniform(0, STEP_S))
        if not end.lives:
            await for_ever()

    async def send(self, end, queue, message):
        await self.step(end)
        if self.how is not None:
            raise asyncio.InvalidStateError("it has ended")
        queue.put_nowait(message)

    async def take(self, end, queue):
        await self.step(end)
        found = await queue.get()
        await self.step(end)
        if not isinstance(found, bytes):
            queue.put_nowait(found)
        return found

    # The origin's end

    async def initial_metadata(self):
        await self.announced.wait()
        await self.step(self.near)

    async def write(self, message):
        await self.send(self.near, self.to_far, message)

    async def read(self):
        return await self.take(self.near, self.to_near)

    async def code(self):
        return self.how[0]

    async def details(self):
        return self.how[1]

    def cancel(self):
        self.end(grpc.StatusCode.CANCELLED, "")


class Context:
    """The target's end of a call."""

    def __init__(self, call):
        self._call = call

    def invocation_metadata(self):
        return self._call.metadata

    async def send_initial_metadata(self, _metadata):
        await self._call.step(self._call.far)
        self._call.announced.set()

    async def write(self, message):
        await self._call.send(self._call.far, self._call.to_near, message)

    async def read(self):
        return await self._call.take(self._call.far, self._call.to_far)

    async def abort(self, code, details):
        self._call.end(code, details)
        raise asyncio.CancelledError


class Channel:
    def __init__(self, world, near, name):
        self._world, self._near, self._name = world, near, name

    def get_state(self, try_to_connect):
        is_there = self._name in self._world.lbms
        return grpc.ChannelConnectivity.READY if is_there else grpc.ChannelConnectivity.IDLE

    async def channel_ready(self):
        while self._name not in self._world.lbms:  # noqa: ASYNC110
            await asyncio.sleep(STEP_S)

    def stream_stream(self, _method):
        return lambda metadata: self._world.call(self._near, self._name, metadata)


class Workdirs(dict):
    """Workdirs by id; `ended` are those that nobody needs any more."""

    def __init__(self, lbm):
        super().__init__()
        self._lbm = lbm

    async def open(self, request, _owner, _most):
        if request.id in self:
            raise FilesRefused("it exists")
        self[request.id] = SimpleNamespace(origin=request.origin, user=request.user, path=b"/")

    def adopt(self, name, workdir):
        self[name] = workdir

    def end(self, name):
        if self._lbm.lives:
            self._lbm.world.ended.append(name)


class Lbm:
    """An LBM from its start to its end; the next one of its host is another object."""

    def __init__(self, world, name, record=None):
        self.world, self.name, self.lives = world, name, True
        config, slots = Config(), Slots(1, max_waiting=10)
        self.host = SimpleNamespace(
            config=config, executions=Executions(slots), slots=slots, jobs=Jobs(10),
            link=SimpleNamespace(jobs=[], has={}, adopted=lambda: None), workdirs=Workdirs(self),
            rates=Rates(1e9, 1e9), requests=Budget(1 << 30, 1 << 30), admit=self.admit,
        )  # fmt: skip
        trust = SimpleNamespace(generation=0)
        peers = SimpleNamespace(
            trust=trust, metadata=(), cuts=set(), channel=lambda far, _: Channel(world, self, far)
        )
        self.links = AcceptedLinks(self.host)
        self.streams = PeerLinks(peers, 5.0, LATE_S)
        self.home = SimpleNamespace(
            streams=self.streams, usage=SimpleNamespace(finish=lambda: None)
        )
        self.talks = {}  # conversations of commands sent from here, by token and number
        if record is not None:
            data, talks = record
            left = parse(Handover.FromString(data), Given([]), 0)
            left.clients = [FarRun("", "", *talk) for talk in talks]
            Adopting(self).take_up(left)

    async def admit(self, _user, _uid, _origin):
        return Admit(None)

    async def leave(self):
        """Returns the record for the next LBM; this one takes no further step."""
        self.host.executions.leaving = True
        await come_to_rest(self.links, self.streams)
        record = Handover()
        write_down(self.links, self.home, -1, [], [], record.MergeFrom)
        record.descriptors = 0
        self.lives = False
        return record.SerializeToString(), list(self.talks)


class Adopting(Adoption):
    """Adopts only the conversations of clients' commands."""

    def __init__(self, lbm):
        super().__init__(lbm.links, lbm.home, None, None)
        self._lbm = lbm

    def _restore_client(self, left):
        self._lbm.talks[left.token, left.number] = self.of(left)


class World:
    def __init__(self, rng):
        self.rng = rng
        self.ended = []  # workdirs whose origin is gone, as their host sees it
        self.calls, self._serving = [], set()
        self.lbms = {}
        self.lbms.update({name: Lbm(self, name) for name in NAMES})

    def call(self, near, name, metadata):
        call = Call(self, near, self.lbms.get(name), metadata)
        self.calls.append(call)
        if call.far is None:
            call.end(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        else:
            task = asyncio.create_task(self._serve(call))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        return call

    async def _serve(self, call):
        await call.step(call.far)
        await serve_stream(call.far.links, Context(call), call.near.name)

    async def restart(self, *names):
        """Stops these LBMs one after another, and then starts them one after another."""
        records = {}
        for name in names:
            records[name] = await self.lbms[name].leave()
            del self.lbms[name]
            for call in self.calls:
                if not (call.near.lives and (call.far is None or call.far.lives)):
                    call.end(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        for name in names:
            await asyncio.sleep(self.rng.uniform(0, 0.1))
            self.lbms[name] = Lbm(self, name, records[name])


class Command:
    """A conversation of an origin with a target; both ends send numbers."""

    def __init__(self, world, number, origin, target):
        self._world, self._origin, self._target = world, origin, target
        self.name = f"{origin}-{number}"
        request = lbm_pb2.WorkdirRequest(id=self.name, origin=origin, user="u", forced=True)
        self.request = request.SerializeToString()

    async def start(self):
        lbm = self._world.lbms[self._origin]
        talk = await lbm.streams.converse(self._target, "")
        self._key = talk.token, talk.number
        lbm.talks[self._key] = talk
        talk.put(tags.WORKDIR, self.request)
        (started, _), *_ = await talk.read()
        assert started == tags.STARTED

    def talk(self):
        """Returns the conversation in the origin's current LBM; None while there is none."""
        lbm = self._world.lbms.get(self._origin)
        return lbm.talks[self._key] if lbm is not None else None

    def there(self):
        """Returns the target's end of it, as `talk` does the origin's."""
        lbm = self._world.lbms.get(self._target)
        for link in lbm.links.open.values() if lbm is not None else ():
            for serving in link.jobs.values():
                if lbm_pb2.WorkdirRequest.FromString(serving.request).id == self.name:
                    return serving.talk
        return None

    def say(self, number):
        """Sends the number from each existing end; returns whether it was sent (here, there)."""
        body = number.to_bytes(4, "little")
        ends = (self.talk(), tags.STDIN), (self.there(), tags.STDOUT)
        for talk, tag in ends:
            if talk is not None:
                talk.put(tag, body)
        return tuple(talk is not None for talk, _ in ends)

    def heard(self):
        """Returns what each end received; for a lost conversation, what broke it."""
        return heard_by(self.there()), heard_by(self.talk())


def heard_by(talk):
    if talk is None or talk._broken is not None:
        return "it is gone" if talk is None else str(talk._broken)
    return [int.from_bytes(body, "little") for _, body in talk._inbox]
