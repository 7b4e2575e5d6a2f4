"""The bias of predicted waits, learnt from actual waits, and its correction.

A. B. Downey (UCB/CSD-97-929, 1997), section 5.4. A straight line is fitted by least squares over
the logarithms of predicted and actual queue times: a slope of 1 and an intercept of 0 would mean no
bias. A prediction p becomes p_corr = p β1 + β0, both logarithms. The paper's 0.6 and 1.7 are for
natural logarithms: predictions of e^(1.7/0.4) seconds, about a minute, would be right and longer
ones too long, as its text says; in base 10 that would be five hours. The natural logarithm is used
here too; `intercept_log10` converts.

Two things are our own. Beyond the predictions it was learnt from, the line says nothing: there the
correction is no greater than at their ends, and there is no interval (`tells_of`). And a correction
is used only where it has lately brought predictions nearer to the actual waits, within the given
intervals (`judged`). Otherwise, after a thousand short jobs, the first long ones would be predicted
by a line that has seen none of their kind; and the tasks of an array, whose waits are all alike,
look like many jobs.

The coefficient of correlation measures the remaining accuracy. A straight line cannot change it; it
does change when each prediction is corrected by what was known when it was made, as in `judged`.
Where all waits are nearly alike, neither the correlation nor the line says anything: a forecast of
20 s for each of twenty waits of 19 to 21 s is good, but its correlation is noise (`is_spread`).

Whether to rely on forecasts is therefore decided by the forecasts themselves (`trust`): by what
factor half of the last ones were off, and how many waits fell within the interval shown. A wide
interval that holds misleads nobody, but nobody can plan by it either (`width`).
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median
from typing import NamedTuple

LEAST_WAIT_S = 1.0  # shorter waits count as this: their logarithms say nothing
FEWEST = 20  # outcomes needed before anything is corrected
NARROWEST = 1e-9  # variance of ln(predicted) below which no slope can be estimated
LEAST_APART = 0.25  # s.d. of the logarithms below which waits count as alike
NORMAL_90 = 1.644854
LEAST_SPREAD = 0.05  # least spread of an interval, however alike earlier waits were
LONGEST_LOG = 40.0  # upper limit of a corrected prediction
LATELY = 50  # outcomes over which corrections are checked for being useful
PROVEN = 10  # intervals compared with actual waits before they can be called reliable
COVERS = 0.8  # the share of waits that must lie inside their 90 % intervals
WIDE = 10.0  # the factor between the ends of an interval that is too wide to plan by
SHORT_S = 10.0  # ratios between waits shorter than this do not matter
GRACE_S = 1.0  # from a free slot until the job has begun on it
OFF_BY_MUCH = 3.0  # the factor from which half of the forecasts are misleading
# the factor below which they are no longer so: hysteresis, so that the verdict does not flicker
OFF_BY_LESS = 2.0


Outcome = tuple[float, float]  # seconds: predicted, actual
Interval = tuple[float, float]  # seconds: its lower and upper end


class CameTrue(NamedTuple):
    """A forecast and the actual wait, in seconds."""

    predicted_s: float  # before correction
    actual_s: float
    shown_s: float | None = None  # None: the same as `predicted_s`
    within_s: Interval | None = None  # the interval shown

    @property
    def outcome(self) -> Outcome:
        return self.predicted_s, self.actual_s


@dataclass(frozen=True, slots=True)
class Correction:
    """ln(actual) = intercept + slope · ln(predicted), give or take `spread`."""

    slope: float = 1.0  # β1
    intercept: float = 0.0  # β0, of natural logarithms of seconds
    spread: float = math.inf  # s.d. of ln(actual) about the line; infinite: not known
    jobs: int = 0  # number of jobs it was learnt from
    shortest_log: float = -math.inf  # the range of ln(predicted) that it was learnt from
    longest_log: float = math.inf

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return not math.isinf(self.spread)

    @property
    def intercept_log10(self) -> float:
        return self.intercept / log(10)

    def tells_of(self, predicted_s: float) -> bool:
        """Whether it was learnt from such predictions. The error of others is unknown."""
        return self.is_known and self.is_within(predicted_s)

    def is_within(self, predicted_s: float) -> bool:
        """Whether such predictions were compared with actual waits."""
        return predicted_s <= 0 or self.shortest_log <= log_of(predicted_s) <= self.longest_log

    def unused(self) -> "Correction":
        """Returns one that changes nothing, for the same predictions."""
        return replace(self, slope=1.0, intercept=0.0, spread=math.inf)

    def corrected_s(self, predicted_s: float) -> float:
        """Returns p_corr of section 5.4; a prediction of no wait stays 0."""
        if predicted_s <= 0:
            return 0.0
        if (self.slope, self.intercept) == (1.0, 0.0):
            return predicted_s
        return exp(min(self._corrected(log_of(predicted_s)), LONGEST_LOG))

    def _corrected(self, x: float) -> float:
        """Corrects a logarithm. Rises with x."""
        nearest = min(max(x, self.shortest_log), self.longest_log)
        y = self.intercept + self.slope * nearest
        # Above the range: lengthen to no more than the value at its end, or shorten by the same
        # factor. Below it: the reverse.
        if x > nearest:
            return max(y, x + min(0.0, y - nearest))
        return min(y, x + max(0.0, y - nearest)) if x < nearest else y

    def corrected(self, predicted_s: float, drawn_s: Interval | None) -> tuple[float, Interval]:
        """Returns the corrected prediction with its interval. `drawn_s`: the interval that follows
        from how long jobs ran, if known. It becomes wider where needed, but never narrower: that
        the waits behind commands which had run before came true to a tenth says nothing of the wait
        behind commands which have not."""
        low_s, high_s = self.interval_90_s(predicted_s)
        if drawn_s is not None and predicted_s > 0:
            low_s, high_s = min(low_s, drawn_s[0]), max(high_s, drawn_s[1])
        return self.corrected_s(predicted_s), (low_s, high_s)

    def interval_90_s(self, predicted_s: float) -> Interval:
        """Returns the interval that held nine in ten waits predicted so; 0 to infinity if
        unknown."""
        if predicted_s <= 0:
            return 0.0, 0.0
        if not self.is_known:
            return 0.0, math.inf
        factor = exp(min(NORMAL_90 * max(self.spread, LEAST_SPREAD), LONGEST_LOG))
        return self.corrected_s(predicted_s) / factor, self.corrected_s(predicted_s) * factor


@dataclass(slots=True)
class Bias:
    """The line through all outcomes so far, kept as running sums, so that each outcome costs the
    same."""

    jobs: int = 0
    _predicted: float = 0.0  # mean logarithms
    _actual: float = 0.0
    _xx: float = 0.0  # sums of squares and products about the means
    _xy: float = 0.0
    _yy: float = 0.0
    _shortest: float = math.inf
    _longest: float = -math.inf

    def learn(self, predicted_s: float, actual_s: float) -> None:
        """Adds an outcome, in seconds; ignores values that are negative or not finite."""
        if not (0 <= predicted_s < math.inf and 0 <= actual_s < math.inf):
            return
        x, y = log_of(predicted_s), log_of(actual_s)
        self.jobs += 1
        self._shortest, self._longest = min(self._shortest, x), max(self._longest, x)
        dx, dy = x - self._predicted, y - self._actual
        self._predicted += dx / self.jobs
        self._actual += dy / self.jobs
        self._xx += dx * (x - self._predicted)
        self._xy += dx * (y - self._actual)
        self._yy += dy * (y - self._actual)

    @property
    def is_spread(self) -> bool:
        least = self.jobs * LEAST_APART**2
        return self.jobs > 2 and self._xx >= least and self._yy >= least

    @property
    def correlation(self) -> float | None:
        """Returns CC of the logarithms; None where one of them never changes."""
        spread = self._xx * self._yy
        return self._xy / math.sqrt(spread) if spread > 0 else None

    def line(self) -> Correction:
        """Returns the line as fitted, however few the outcomes; slope 1 if predictions never
        differ."""
        if not self.jobs:
            return Correction()
        slope = self._xy / self._xx if self._xx > NARROWEST * self.jobs else 1.0
        left = max(0.0, self._yy - 2 * slope * self._xy + slope**2 * self._xx)
        spread = math.sqrt(left / (self.jobs - 2)) if self.jobs > 2 else math.inf
        intercept = self._actual - slope * self._predicted
        return Correction(slope, intercept, spread, self.jobs, self._shortest, self._longest)

    def correction(self) -> Correction:
        """Returns the correction to use: none from fewer than `FEWEST` outcomes, and never one with
        a negative slope, which would predict shorter waits for longer predictions."""
        if self.jobs < FEWEST:
            return Correction(jobs=self.jobs)
        line = self.line()
        if line.slope >= 0:
            return line
        spread = math.sqrt(self._yy / (self.jobs - 1))
        return Correction(0.0, self._actual, spread, self.jobs, self._shortest, self._longest)


@dataclass(frozen=True, slots=True)
class Judgement:
    """The measures of figure 5."""

    jobs: int
    line: Correction  # through the uncorrected predictions
    raw: float | None  # correlation coefficient of the uncorrected predictions
    corrected: float | None  # and of the corrected ones
    corrected_line: Correction
    covered_90: float | None  # share of waits inside the interval given beforehand
    intervals: int  # number of intervals given
    # Whether corrected predictions were nearer to the actual waits lately, and waits lay inside
    # their intervals.
    helps: bool

    is_spread: bool  # both vary enough for a line to say anything


def judged(outcomes: Sequence[Outcome]) -> Judgement:
    """Corrects each prediction, in order of outcomes, by those before it, and compares it with the
    actual wait."""
    raw, corrected = Bias(), Bias()
    inside = judged_by_interval = 0
    gains: deque[float] = deque(maxlen=LATELY)
    covers: deque[bool] = deque(maxlen=LATELY)
    for predicted_s, actual_s in outcomes:
        known = raw.correction()
        if predicted_s > 0 and known.tells_of(predicted_s):
            low_s, high_s = known.interval_90_s(predicted_s)
            judged_by_interval += 1
            covers.append(low_s <= max(actual_s, LEAST_WAIT_S) <= high_s)
            inside += covers[-1]
        if known.jobs >= FEWEST:
            corrected_s = known.corrected_s(predicted_s)
            corrected.learn(corrected_s, actual_s)
            gains.append(off(predicted_s, actual_s) - off(corrected_s, actual_s))
        raw.learn(predicted_s, actual_s)
    covered = inside / judged_by_interval if judged_by_interval else None
    return Judgement(
        raw.jobs, raw.line(), raw.correlation, corrected.correlation, corrected.line(), covered,
        judged_by_interval, helps=sum(gains) >= 0 and sum(covers) >= COVERS * len(covers),
        is_spread=raw.is_spread,
    )  # fmt: skip


def off(predicted_s: float, actual_s: float) -> float:
    """Returns the error factor of a prediction, as a logarithm."""
    return abs(log_of(predicted_s) - log_of(actual_s))


@dataclass(frozen=True, slots=True)
class Trust:
    """How well the last forecasts came true."""

    count: int  # without the short waits
    off_by: float = 1.0  # half were off by this factor or more
    intervals: int = 0  # number of intervals shown
    held: int = 0  # of these, the intervals that held the actual wait
    short: int = 0  # waits that were to be shorter than `SHORT_S`, and were
    width: float = 1.0  # half of the intervals ended at this multiple of their beginning, or later

    @property
    def comes_true(self) -> bool:
        """Whether the times can be relied on as they are."""
        return self.count + self.short >= FEWEST and self.off_by < OFF_BY_LESS

    @property
    def holds(self) -> bool:
        """Whether the intervals can be relied on."""
        return self.intervals >= PROVEN and self.held >= COVERS * self.intervals

    def misleads(self, *, was_said: bool = False) -> bool:
        """Whether relying on the forecasts would mislead. `was_said`: the previous answer."""
        limit = OFF_BY_LESS if was_said else OFF_BY_MUCH
        return self.count >= FEWEST and self.off_by >= limit and not self.holds


def trust(forecasts: Sequence[CameTrue]) -> Trust:
    """Judges the last forecasts; `forecasts` are in the order in which they came true."""
    lately = forecasts[-LATELY:]
    if not lately:
        return Trust(0)
    # Jobs that found a free slot, as was foreseen, would hide how far the others were off.
    factors = [
        exp(abs(log(max(one.actual_s, SHORT_S) / max(shown_s, SHORT_S))))
        for one in lately
        for shown_s in [one.predicted_s if one.shown_s is None else one.shown_s]
        if max(one.actual_s, shown_s) >= SHORT_S
    ]
    held = [
        low_s - GRACE_S <= one.actual_s <= high_s + GRACE_S
        for one in lately if one.within_s is not None
        for low_s, high_s in [one.within_s]
    ]  # fmt: skip
    widths = [
        max(high_s, SHORT_S) / max(low_s, SHORT_S)
        for one in lately if one.within_s is not None
        for low_s, high_s in [one.within_s] if high_s >= SHORT_S
    ]  # fmt: skip
    off_by, count = median(factors) if factors else 1.0, len(factors)
    width = median(widths) if widths else 1.0
    return Trust(count, off_by, len(held), sum(held), len(lately) - count, width)


def log_of(wait_s: float) -> float:
    return log(max(wait_s, LEAST_WAIT_S))
