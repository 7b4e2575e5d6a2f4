"""Records a LIM's inputs and outputs, line by line, so that they can be replayed.

A LIM decides only by its inputs, time and random numbers included, so every decision can be
repeated from them on another machine and years later: `lbd.sim.faults.replay` does that. Each line
is one call of the state or the placer as JSON: the time, the name, the arguments, the result. The
first line holds the LIM's constructor arguments.

Values are packed exactly by their shape: a class by its name and its fields in order.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from random import Random
from types import ModuleType

import lbd.config.schema as lbd_config
import lbd.model as lbd_model
from lbd import __version__
from lbd.errors import ConfigError
from lbd.lim.core import events, messages, settings
from lbd.lim.core import state as lim_state
from lbd.lim.core.placement import Placer
from lbd.lim.core.state import Identity, LimState
from lbd.model import HostId, PlacementRequest
from lbd.policy import view
from lbd.policy.view import Decision, Reply, Step

MADE_OF = "lbd-lim-history-2"
Write = Callable[[str], None]
Packed = None | bool | int | float | str | list["Packed"] | dict[str, "Packed"]

MODULES: tuple[ModuleType, ...] = (
    events, messages, settings, lim_state, lbd_config, lbd_model, view,
)  # fmt: skip


def classes() -> Iterator[tuple[str, type]]:
    for module in MODULES:
        for name, kind in vars(module).items():
            if isinstance(kind, type) and kind.__module__ == module.__name__:
                yield f"{module.__name__.rpartition('.')[2]}.{name}", kind


CLASSES = dict(classes())
NAMES = {kind: name for name, kind in CLASSES.items()}


def pack(value: object) -> Packed:
    if isinstance(value, Enum):
        return {"is": NAMES[type(value)], "of": [value.name]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, frozenset):
        return {"set": sorted(value)}
    if isinstance(value, Mapping):
        return {"map": [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, Sequence):
        return [pack(item) for item in value]
    assert is_dataclass(value), value
    return {
        "is": NAMES[type(value)],
        "of": [pack(getattr(value, item.name)) for item in fields(value)],
    }


def unpack(packed: Packed) -> object:
    """Raises ConfigError for a class that this release does not have."""
    if isinstance(packed, list):
        return tuple(map(unpack, packed))
    if not isinstance(packed, dict):
        return packed
    match packed:
        case {"is": str(name), "of": list(parts)}:
            kind = CLASSES.get(name)
            if kind is None:
                raise ConfigError(f"it contains a {name[:40]!r}, which this release does not know")
            if issubclass(kind, Enum):
                return kind[str(parts[0])]
            return kind(*map(unpack, parts))
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case {"set": list(items)}:
            return frozenset(map(unpack, items))
        case {"map": list(pairs)}:
            return {unpack(pair[0]): unpack(pair[1]) for pair in pairs if isinstance(pair, list)}
    raise ConfigError("not a LIM's history, or damaged")


def line_of(now_s: float | None, call: str, given: Sequence[object], gave: object) -> str:
    return json.dumps([now_s, call, pack(given), pack(gave)], separators=(",", ":"))


class RecordedPlacer(Placer):
    write: Write

    def next_step(
        self, request: PlacementRequest, replies: Sequence[Reply], now_s: float, dry: bool = False
    ) -> Step:
        step = super().next_step(request, replies, now_s, dry)
        self.write(line_of(now_s, "next_step", (request, tuple(replies), now_s, dry), step))
        return step

    def settle(
        self, request: PlacementRequest, decision: Decision, now_s: float, dry: bool
    ) -> Decision:
        settled = super().settle(request, decision, now_s, dry)
        self.write(line_of(now_s, "settle", (request, decision, now_s, dry), settled))
        return settled

    def question(
        self, request: PlacementRequest, sample: messages.Sample, dry: bool
    ) -> messages.AskCentre:
        asked = super().question(request, sample, dry)
        self.write(line_of(None, "question", (request, sample, dry), asked))
        return asked

    def answered(
        self, request: PlacementRequest, centre: HostId, reply: messages.Body | None, now_s: float
    ) -> Reply:
        found = super().answered(request, centre, reply, now_s)
        self.write(line_of(now_s, "answered", (request, centre, reply, now_s), found))
        return found

    def probed(self, host: HostId, reply: messages.Body | None, now_s: float) -> Reply:
        found = super().probed(host, reply, now_s)
        self.write(line_of(now_s, "probed", (host, reply, now_s), found))
        return found


class RecordedState(LimState):
    """A LIM whose calls from outside are all recorded, with their results."""

    def __init__(
        self, identity: Identity, base: settings.InForce, seed: int, now_s: float, write: Write
    ) -> None:
        rng = Random(seed)
        super().__init__(identity, base, rng, now_s)
        plain, self.placer = self.placer, RecordedPlacer(self.table, self.reservations, rng)
        self.placer.centre = plain.centre
        self.placer.write = self._write = write
        write(line_of(now_s, MADE_OF, (__version__, identity, base, seed, now_s), None))

    def start(self) -> list[events.Action]:
        actions = super().start()
        self._write(line_of(None, "start", (), actions))
        return actions

    def handle(self, event: events.Event, now_s: float) -> list[events.Action]:
        actions = super().handle(event, now_s)
        self._write(line_of(now_s, "handle", (event, now_s), actions))
        return actions

    def drained_there(self, name: HostId, drained: bool) -> None:
        super().drained_there(name, drained)
        self._write(line_of(None, "drained_there", (name, drained), None))
