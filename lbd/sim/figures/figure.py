"""The papers' figures that can be redrawn: what a figure is.

A figure is a function of how much to simulate and of a `map` to run it with. It returns its lines,
and for each of the paper's claims about it whether that holds in our numbers. Drawing is left to
lbd/cli/sim/plot.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Map(Protocol):
    """Like the built-in map, but returns a list; it may use several processes."""

    def __call__(
        self, function: Callable[[Given], Found], given: Sequence[Given]
    ) -> list[Found]: ...


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to simulate. Figures from theory alone ignore it."""

    duration_s: float = 1200.0
    replications: int = 3
    seed: int = 1
    # CPU % of hosts, a series for a host and day, where a figure uses it
    series: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    interval: tuple[float, ...] = ()  # half of each y's 95 % interval, if there is one
    printed: bool = False  # from the paper, not ours


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    holds: bool
    ours: str  # the numbers that decided it


@dataclass(frozen=True, slots=True)
class Drawing:
    x_label: str
    y_label: str
    lines: tuple[Curve, ...]
    claims: tuple[Claim, ...]
    log_x: bool = False
    log_y: bool = False
    scattered: bool = False  # draw points, not lines


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    source: str
    make: Callable[[Scale, Map], Drawing]


def plain_map(function: Callable[[Given], Found], given: Sequence[Given]) -> list[Found]:
    return [function(item) for item in given]
