"""Turns the daemons' answers into metric families. Pure.

An answer comes from another process and is checked: metrics missing from the table are left out, a
label value that the table does not allow counts as `other`, and no metric has more series than
`series_max`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lbd.metrics.core.table import COUNTER, DAEMON, HISTOGRAM, OTHER, TABLE, Label, Metric

# a + occurs in versions between two releases
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+ -]{0,63}")
Labels = tuple[str, ...]
Answer = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Counts:
    """A histogram: how many values fell into each interval, and their sum."""

    counts: tuple[int, ...]
    total: float

    def __add__(self, other: "Counts") -> "Counts":
        both = zip(self.counts, other.counts, strict=True)
        return Counts(tuple(a + b for a, b in both), self.total + other.total)


Value = float | Counts


@dataclass(slots=True)
class Family:
    """All series of a metric."""

    metric: Metric
    series: dict[Labels, Value] = field(default_factory=dict)
    series_max: int = field(init=False)
    is_summed: bool = field(init=False)

    def __post_init__(self) -> None:
        self.series_max = self.metric.series_max
        self.is_summed = self.metric.kind in (COUNTER, HISTOGRAM)

    def add(self, labels: Labels, value: Value) -> None:
        """Adds a value. Beyond the bound, counters and histograms are added to one series; gauges,
        which have no sum, are dropped."""
        known = self.series.get(labels)
        if known is None and len(self.series) >= self.series_max:
            if not self.is_summed:
                return
            labels = (OTHER,) * len(labels)
            known = self.series.get(labels)
        is_first = known is None or not self.is_summed
        self.series[labels] = value if is_first else added(known, value)


def added(known: Value | None, more: Value) -> Value:
    """Adds two values of one metric, so of one kind."""
    if isinstance(known, Counts) and isinstance(more, Counts):
        return known + more
    assert isinstance(known, float)
    assert isinstance(more, float)
    return known + more


def families(answers: Mapping[str, Answer]) -> list[Family]:
    """`answers`: by daemon name, of the daemons that answered."""
    found = []
    for metric in TABLE:
        family = Family(metric)
        for source in metric.sources:
            said = answers.get(source, {}).get(metric.name)
            for labels, value in rows(metric, source, said):
                family.add(labels, value)
        if family.series:
            found.append(family)
    return found


def rows(metric: Metric, source: str, said: object) -> Iterator[tuple[Labels, Value]]:
    """Yields the valid rows of a daemon's answer for a metric."""
    labels = metric.labels
    if labels == (DAEMON,) and not isinstance(said, list):  # about itself
        said, labels = [[source, said]], metric.labels
    if not labels:
        said = [[said]]
    if not isinstance(said, list):
        return
    for row in said[: 2 * metric.series_max]:
        if not isinstance(row, list) or len(row) != len(labels) + 1:
            continue
        if (value := value_of(metric, row[-1])) is not None:
            yield words_of(labels, row[:-1]), value


def value_of(metric: Metric, said: object) -> Value | None:
    if metric.kind == HISTOGRAM:
        return counts_of(metric, said)
    if isinstance(said, bool):
        return float(said)
    number = number_of(said)
    return None if number is None or (metric.kind == COUNTER and number < 0) else number


def number_of(said: object) -> float | None:
    if isinstance(said, bool) or not isinstance(said, int | float):
        return None
    try:
        number = float(said)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def counts_of(metric: Metric, said: object) -> Counts | None:
    if not isinstance(said, dict):
        return None
    counts, total = said.get("counts"), number_of(said.get("sum"))
    if not isinstance(counts, list) or len(counts) != len(metric.bounds) + 1 or total is None:
        return None
    if not all(type(count) is int and 0 <= count < 1 << 62 for count in counts):
        return None
    return Counts(tuple(counts), total)


def words_of(labels: Sequence[Label], said: Sequence[object]) -> Labels:
    return tuple(word_of(label, value) for label, value in zip(labels, said, strict=True))


def word_of(label: Label, said: object) -> str:
    if not isinstance(said, str):
        return OTHER
    if label.values:
        return said if said in label.values else OTHER
    return said if is_word(said) else OTHER


def is_word(text: str) -> bool:
    """Returns whether a text is a word of lbd's programs or a host name: it needs no quoting
    anywhere."""
    return WORD.fullmatch(text) is not None
