"""The connections of hosts to the dispatcher: messages arrive in order until the connection breaks.

A message waits while a connection is cut or a daemon is stopped. An end that hears nothing for
SILENT_S treats the connection as broken, which loses all messages in transit. The host then
reconnects.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from lbd.model import HostId
from lbd.sim.faults import messages as m
from lbd.sim.faults.dispatcher import Dispatcher
from lbd.sim.faults.host import Host
from lbd.sim.faults.network import Network

DISPATCHER = HostId("the dispatcher")
BEAT_S, RETRY_S, SILENT_S = 1.0, 0.3, 4.0
DISK_S = (0.001, 0.03)  # until a change is on disk


@dataclass(slots=True)
class HostLine:
    host: Host
    down: deque[m.Downward] = field(default_factory=deque)
    host_heard_s: float = 0.0  # when it last heard the dispatcher
    heard_s: float = 0.0  # when the dispatcher last heard it
    is_pumped: set[bool] = field(default_factory=set)  # directions being delivered: True is upwards


class QueueLines:
    def __init__(
        self, network: Network, at: Callable[[float, Callable[[], None]], None],
        dispatcher: Dispatcher, hosts: list[Host],
    ) -> None:  # fmt: skip
        self._network, self._at, self.dispatcher = network, at, dispatcher
        self.lines = {host.name: HostLine(host) for host in hosts}
        self.is_up, self.is_paused = True, False
        # how far off people have set the wall clock of the dispatcher's host
        self.wall_offset_s = 0.0
        for line in self.lines.values():
            at(network.rng.uniform(0.0, BEAT_S), lambda line=line: self._heartbeat(line))  # type: ignore[misc]
        at(BEAT_S, self._tick)

    # The dispatcher

    @property
    def is_listening(self) -> bool:
        return self.is_up and not self.is_paused

    def kill(self) -> None:
        self.is_up = False

    def start(self) -> None:
        """Starts a dispatcher; the hosts notice that the last one is gone."""
        for line in self.lines.values():
            self._disconnected(line)
        self.dispatcher.start(self._network.now_s)
        self.is_up = True
        self.flush()

    @property
    def unix_s(self) -> float:
        return self._network.now_s + self.wall_offset_s

    def flush(self) -> None:
        """Writes decisions to disk before anything follows from them."""
        if self.dispatcher.batches:
            self._at(self._network.rng.uniform(*DISK_S), self._commit)

    def _commit(self) -> None:
        if self.is_listening:
            self.dispatcher.commit(self._network.now_s, self.unix_s)

    def _tick(self) -> None:
        self._at(BEAT_S / 2, self._tick)
        if not self.is_listening:
            return
        now_s = self._network.now_s
        for name, line in self.lines.items():
            if name in self.dispatcher.connected and now_s - line.heard_s > SILENT_S:
                line.down.clear()
                self.dispatcher.disconnect(name, now_s)
        self.dispatcher.tick(now_s)
        self._commit()

    # Hosts

    def _heartbeat(self, line: HostLine) -> None:
        self._at(BEAT_S, lambda: self._heartbeat(line))
        host, now_s = line.host, self._network.now_s
        if host.is_paused:
            return
        if host.connected and now_s - line.host_heard_s > SILENT_S:
            self._disconnected(line)
        if host.connected:
            host.heartbeat()
        elif self.is_listening and self._network.passes(host.name, DISPATCHER):
            self._connect(line)
        self.pump(line)

    def _connect(self, line: HostLine) -> None:
        line.down.clear()
        line.host_heard_s = line.heard_s = self._network.now_s
        self.dispatcher.connect(line.host.name, self._network.now_s)
        line.host.reconnected()
        self.flush()

    def _disconnected(self, line: HostLine) -> None:
        line.host.connected = False
        line.host.up.clear()

    # Messages

    def send(self, host: HostId, message: m.Downward) -> None:
        if host in self.dispatcher.connected:
            self.lines[host].down.append(message)
            self.pump(self.lines[host])

    def pump_all(self) -> None:
        for line in self.lines.values():
            if line.host.up or line.down:
                self.pump(line)

    def pump(self, line: HostLine) -> None:
        for upwards in (True, False):
            queue = line.host.up if upwards else line.down
            if queue and upwards not in line.is_pumped:
                line.is_pumped.add(upwards)
                self._after(self._network.delay_s(), line, upwards)

    def _after(self, delay_s: float, line: HostLine, upwards: bool) -> None:
        self._at(delay_s, lambda: self._deliver(line, upwards=upwards))

    def _deliver(self, line: HostLine, *, upwards: bool) -> None:
        """Delivers all messages that have gathered."""
        line.is_pumped.discard(upwards)
        host, network = line.host, self._network
        ways = (host.name, DISPATCHER) if upwards else (DISPATCHER, host.name)
        if host.is_paused or not self.is_listening or not network.passes(*ways):
            if host.up if upwards else line.down:
                line.is_pumped.add(upwards)
                self._after(RETRY_S, line, upwards)
        elif upwards:
            while host.up:
                message = host.up.popleft()
                if host.name in self.dispatcher.connected:
                    line.heard_s = network.now_s
                    self.dispatcher.hear(host.name, message, network.now_s)
            self.flush()
        elif host.connected:
            while line.down:
                line.host_heard_s = network.now_s
                host.hear(line.down.popleft())
