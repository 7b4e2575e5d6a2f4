"""Connections between the LBMs of two hosts: they deliver in order and once, or the conversation
ends.

An end repeats what is not acknowledged. An end that has heard nothing for `orphan_s` gives up the
conversation and starts another; so does one whose LBM was killed. The other end sees the higher
number and gives up whatever the old conversation was about.
"""

import itertools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lbd.model import HostId
from lbd.sim.faults.messages import BetweenHosts
from lbd.sim.faults.network import Network

RESEND_S = 0.5
CONTACT_S = 2.0  # an end that was silent for longer counts as unreachable


class Ends(Protocol):
    """The receivers of the messages."""

    def hears(self, host: HostId, sender: HostId, message: BetweenHosts) -> None: ...

    def is_listening(self, host: HostId) -> bool: ...

    def lost_contact(self, host: HostId, other: HostId) -> None:
        """`host` has given up its conversation with `other`."""
        ...


@dataclass(slots=True)
class End:
    heard_s: float  # when the other end was last heard
    number: int = 0  # of the conversation
    out: deque[BetweenHosts] = field(default_factory=deque)
    acknowledged: int = 0
    received: int = 0

    def begin(self, number: int, now_s: float) -> None:
        self.number, self.heard_s = number, now_s
        self.out.clear()
        self.acknowledged = self.received = 0


@dataclass(frozen=True, slots=True)
class Frame:
    number: int
    first: int  # number of the first message
    messages: tuple[BetweenHosts, ...]
    received: int


class Links:
    def __init__(
        self, network: Network, at: Callable[[float, Callable[[], None]], None], ends: Ends,
        names: list[HostId], orphan_s: float,
    ) -> None:  # fmt: skip
        self._network, self._at, self._owner, self._orphan_s = network, at, ends, orphan_s
        self._numbers = itertools.count(1)
        pairs = list(itertools.permutations(names, 2))
        self._ends = {pair: End(network.now_s) for pair in pairs}
        for pair in pairs:
            network.at(network.rng.uniform(0.0, RESEND_S), lambda pair=pair: self._heartbeat(*pair))  # type: ignore[misc]

    def send(self, host: HostId, to: HostId, message: BetweenHosts) -> None:
        self._ends[host, to].out.append(message)
        self._flush(host, to)

    def reaches(self, host: HostId, to: HostId) -> bool:
        return self._network.now_s - self._ends[host, to].heard_s < CONTACT_S

    def killed(self, host: HostId) -> None:
        """The host's LBM was killed and knows nothing any more."""
        for (own, _), end in self._ends.items():
            if own == host:
                self._begin(end)

    def _begin(self, end: End) -> None:
        end.begin(next(self._numbers), self._network.now_s)

    def _heartbeat(self, host: HostId, to: HostId) -> None:
        self._network.at(RESEND_S, lambda: self._heartbeat(host, to))
        if not self._owner.is_listening(host):
            return
        end = self._ends[host, to]
        if self._network.now_s - end.heard_s > self._orphan_s:
            self._begin(end)
            self._at(0.0, lambda: self._owner.lost_contact(host, to))
        self._flush(host, to)

    def _flush(self, host: HostId, to: HostId) -> None:
        end, network = self._ends[host, to], self._network
        frame = Frame(end.number, end.acknowledged, tuple(end.out), end.received)
        if network.passes(host, to):
            for _ in range(network.copies()):
                # an empty frame needs no check of the promises
                at = self._at if frame.messages else network.at
                at(network.delay_s(), lambda: self._arrive(to, host, frame))

    def _arrive(self, host: HostId, sender: HostId, frame: Frame) -> None:
        end = self._ends[host, sender]
        if not self._owner.is_listening(host) or frame.number < end.number:
            return
        if frame.number > end.number:
            end.begin(frame.number, self._network.now_s)
            self._owner.lost_contact(host, sender)
        end.heard_s = self._network.now_s
        for _ in range(frame.received - end.acknowledged):
            end.out.popleft()
            end.acknowledged += 1
        for number, message in enumerate(frame.messages, frame.first):
            if number == end.received and frame.number == end.number:
                end.received += 1
                self._owner.hears(host, sender, message)
