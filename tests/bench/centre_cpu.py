"""The share of a core that the load information centre of 1,000 hosts takes under GLOBAL, in its
LIM's code.

This is the state that runs in production, in virtual time, with every message in and out encoded
and decoded as on the wire; the messages of the 999 others are made beforehand. A tenth of them
report another load each second, and each of them once a keep-alive; each answers every delta with
the version that it has.

The cost of gRPC, TLS and the event loop is not included: it comes on top, for each of some 1,100
calls a second, and is probably most of what a centre takes.

`.venv/bin/python tests/bench/centre_cpu.py` prints the share of each part.
"""

import sys
import time
from pathlib import Path
from random import Random

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # the repository, not this directory

from lbd.config.schema import LimConfig
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.broadcast import sends
from lbd.model import HostId
from lbd.net import convert
from lbd.net.lim_network import Encoder
from lbd.testing.builders import lim_state, member, sample, vector
from tests.bench.measure import summarise
from tests.bench.row import Bound, Row
from tests.bench.stage import Stage

HOSTS, CHANGED = 1000, 100
SETTLING_S, SECONDS, QUICK_SECONDS = 5, 60, 10
LOADS = (0.0, 0.5, 1.0, 2.0)
PARTS = ("reports", "tick", "sending", "answers")
OF_A_CORE = 0.05


def measure(stage: Stage, _: set[str]) -> list[Row]:
    mark = stage.others.mark()
    found = seconds_of_cpu(QUICK_SECONDS if stage.quick else SECONDS)
    others = stage.others.share_since(mark)
    note = f"{CHANGED} loads change a second; without gRPC, TLS and the event loop"
    return [
        Row(
            f"the centre's LIM, {HOSTS} hosts, GLOBAL", "of a core",
            summarise([sum(second.values()) for second in found]),
            asked=Bound(OF_A_CORE, of_ratio=False), others=others, note=note,
        )
    ]  # fmt: skip


def seconds_of_cpu(seconds: int) -> list[dict[str, float]]:
    """The CPU seconds of each part in each second of virtual time, once all hosts know one
    another."""
    centre = Centre()
    for _ in range(SETTLING_S):
        centre.one_second()
    return [centre.one_second() for _ in range(seconds)]


class Centre:
    def __init__(self) -> None:
        self.now_s = 10.0
        self._rng = Random(1)
        self.names = [HostId(f"h{number}") for number in range(2, HOSTS + 1)]
        self.state = lim_state("h1", self.names, now_s=self.now_s)
        self._encoder = Encoder()
        self._numbers = dict.fromkeys(self.names, 0)
        self._loads = dict.fromkeys(self.names, 0.0)
        for rank, name in enumerate(self.names, 1):
            self.take(self.message(name, m.Hello(member(name, rank), wants_members=False)))
            self.take(self.report(name))
        self.state.handle(e.LbmStatus(accepting=True, slots_total=2), self.now_s)

    def one_second(self) -> dict[str, float]:
        rng, every = self._rng, int(LimConfig().keepalive_s)
        changed = set(rng.sample(self.names, CHANGED))
        for name in changed:
            self._loads[name] = rng.choice([one for one in LOADS if one != self._loads[name]])
        beat = int(self.now_s) % every
        changed.update(name for place, name in enumerate(self.names) if place % every == beat)
        reports = [self.report(name) for name in sorted(changed)]
        self.now_s += 1.0
        took: dict[str, float] = {}
        began_s = time.thread_time()
        for data in reports:
            self.take(data)
        took["reports"] = time.thread_time() - began_s
        began_s = time.thread_time()
        actions = self.state.handle(e.Tick(), self.now_s)
        took["tick"] = time.thread_time() - began_s
        began_s, sent = time.thread_time(), []
        for action in actions:
            if isinstance(action, e.Broadcast):
                for send in sends(self.state.table, action):
                    self._encoder.encode(self.state.envelope(send.body))
                    sent.append(send)
        took["sending"] = time.thread_time() - began_s
        answers = [
            (one, self.message(one.to, m.Ack(known_version=one.body.version)))
            for one in sent
            if isinstance(one.body, m.Delta)
        ]
        began_s = time.thread_time()
        for one, data in answers:
            self.state.handle(e.Replied(one.to, one.body, convert.decode(data)), self.now_s)
        took["answers"] = time.thread_time() - began_s
        assert len(answers) == len(self.names), f"{len(answers)} hosts were told"
        return took

    def take(self, data: bytes) -> None:
        """Handles a message as the daemon does, which encodes the answer too."""
        for action in self.state.handle(e.Received(convert.decode(data)), self.now_s):
            if isinstance(action, e.Reply):
                convert.encode(self.state.envelope(action.body))

    def report(self, name: HostId) -> bytes:
        self._numbers[name] += 1
        return self.message(
            name, m.Report(sample(name, self._numbers[name], vector(self._loads[name])))
        )

    def message(self, sender: HostId, body: m.Body) -> bytes:
        return convert.encode(m.Message("test", sender, 1, body))


def main() -> None:
    found = seconds_of_cpu(SECONDS)
    for part in PARTS:
        print(f"{part:<10} {summarise([second[part] for second in found]).median:7.2%} of a core")
    whole = summarise([sum(second.values()) for second in found])
    print(f"{'together':<10} {whole.median:7.2%} of a core, p95 {whole.p95:.2%}")


if __name__ == "__main__":
    main()
