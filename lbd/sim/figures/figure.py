"""The papers' figures that can be redrawn: what one is, and the table of all of them.

A figure is a function of how much to simulate and of a `map` to do it with; it returns its lines,
and of each claim the paper makes with it whether it holds in our numbers. Which library draws them
is `cli.sim_figure`'s concern.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Given = TypeVar("Given")
Found = TypeVar("Found")


class Map(Protocol):
    """As the built-in map, but a list; it may use several processes."""

    def __call__(
        self, function: Callable[[Given], Found], given: Sequence[Given]
    ) -> list[Found]: ...


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to simulate; figures of theory alone ignore it."""

    duration_s: float = 1200.0
    replications: int = 3
    seed: int = 1
    series: tuple[tuple[float, ...], ...] = ()  # CPU % of hosts, a day each, where a figure asks


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    interval: tuple[float, ...] = ()  # half of the 95 % interval of each y, where there is one
    printed: bool = False  # in the paper, not ours


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    holds: bool
    ours: str  # the numbers it was judged by


@dataclass(frozen=True, slots=True)
class Drawing:
    x_label: str
    y_label: str
    lines: tuple[Curve, ...]
    claims: tuple[Claim, ...]
    log_x: bool = False
    log_y: bool = False
    scattered: bool = False  # points, not lines


@dataclass(frozen=True, slots=True)
class Figure:
    title: str
    source: str
    make: Callable[[Scale, Map], Drawing]


def plain_map(function: Callable[[Given], Found], given: Sequence[Given]) -> list[Found]:
    return [function(item) for item in given]
