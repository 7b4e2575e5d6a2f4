"""Turns series of numbers into the points of SVG paths."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

LEAST_TOP = 1.0  # so that an idle host's chart is scaled to one task per core
LEVELS = (
    (0.1, "up to 0.1"), (0.4, "to 0.4"), (0.7, "to 0.7"), (1.0, "to 1"), (1.5, "to 1.5"),
    (math.inf, "more"),
)  # fmt: skip
SPARK_POINTS = 40
SPARK_HEIGHT = 48  # in half pixels


def top_of(points: Sequence[float]) -> float:
    """Returns the value at the upper edge: a round number that no point exceeds."""
    most = max((point for point in points if math.isfinite(point)), default=0.0)
    if most <= LEAST_TOP:
        return LEAST_TOP
    size = 10.0 ** math.floor(math.log10(most))
    return next(step * size for step in (1.0, 2.0, 5.0, 10.0) if step * size >= most)


def runs(points: Sequence[float]) -> Iterator[list[tuple[int, float]]]:
    """Yields the known points, a run at a time. A single point becomes a short dash that stays
    within the chart."""
    run: list[tuple[int, float]] = []
    for at, point in enumerate(points):
        if math.isfinite(point):
            run.append((at, point))
        elif run:
            yield line_of(run, len(points))
            run = []
    if run:
        yield line_of(run, len(points))


def line_of(run: list[tuple[int, float]], count: int) -> list[tuple[int, float]]:
    if len(run) > 1:
        return run
    ((at, point),) = run
    begin = at - 1 if 0 < at == count - 1 else at
    return [(begin, point), (begin + 1, point)]


def path(points: Sequence[float], width: float, height: float) -> str:
    """Returns the line, broken where nothing is known."""
    if not points:
        return ""
    top, step = top_of(points), width / max(1, len(points) - 1)
    parts = []
    for run in runs(points):
        places = (f"{at * step:.1f},{height * (1 - max(0.0, y) / top):.1f}" for at, y in run)
        parts.append("M" + "L".join(places))
    return "".join(parts)


def area(points: Sequence[float], width: float, height: float) -> str:
    """Returns the area below the line."""
    if not points:
        return ""
    step = width / max(1, len(points) - 1)
    parts = []
    for run, line in zip(runs(points), path(points, width, height).split("M")[1:], strict=True):
        parts.append(
            f"M{line}L{run[-1][0] * step:.1f},{height:g}L{run[0][0] * step:.1f},{height:g}Z"
        )
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Spark:
    """A small line, `width` steps wide and SPARK_HEIGHT high. A page has hundreds of them."""

    path: str
    width: int
    words: str


def spark_of(points: Sequence[float]) -> Spark:
    """Draws the line and the area below it as one path, in whole numbers. The path starts and ends
    below the picture and runs past its sides, so that only the line itself is visible."""
    few = thinned(points, SPARK_POINTS)
    top, last = top_of(few), max(1, len(few) - 1)
    parts = []
    for run in runs(few):
        ys = [round(SPARK_HEIGHT * (1 - max(0.0, y) / top)) for _, y in run]
        begin, end = run[0][0], run[-1][0]
        parts.append(f"M{begin if begin else -1},{SPARK_HEIGHT + 2}V{ys[0]}")
        if not begin:
            parts.append("H0")
        parts += [f"l1,{after - before}" for before, after in pairwise(ys)]
        if end == last:
            parts.append(f"H{last + 1}")
        parts.append(f"V{SPARK_HEIGHT + 2}")
    return Spark("".join(parts), last, in_words(few))


def thinned(points: Sequence[float], most: int) -> tuple[float, ...]:
    """Returns at most `most` points: means of neighbours, NaN where none of them is known."""
    each = math.ceil(len(points) / most) if most else 1
    groups = (points[at : at + each] for at in range(0, len(points), max(1, each)))
    known = ([one for one in group if math.isfinite(one)] for group in groups)
    return tuple(sum(group) / len(group) if group else math.nan for group in known)


def level(load: float) -> str:
    """Returns one of LEVELS; "none" where nothing is known."""
    if not math.isfinite(load):
        return "none"
    return str(next(at for at, (top, _) in enumerate(LEVELS) if load <= top))


def in_words(points: Sequence[float]) -> str:
    """Describes the line for those who cannot see it."""
    known = [point for point in points if math.isfinite(point)]
    if not known:
        return "nothing known yet"
    return f"lowest {min(known):.2f}, highest {max(known):.2f}, last {known[-1]:.2f}"
