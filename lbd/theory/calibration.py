"""The bias of predicted waits, learnt from what came true, and the correction of it.

A. B. Downey (UCB/CSD-97-929, 1997), section 5.4. Over the logarithms of predicted and actual queue
times a straight line is fitted by least squares: a slope of 1 and an intercept of 0 would be a
predictor without bias. A prediction p becomes p_corr = p β1 + β0, both logarithms. The paper's 0.6
and 1.7 are of natural logarithms: predictions of e^(1.7/0.4) seconds, about a minute, would be
right and longer ones too long, as its text says; of base 10 that would be five hours. Here, too,
the logarithm is the natural one; `intercept_log10` is the other.

Two things are ours. Beyond the predictions that it was learnt from, the line says nothing: there
the correction is no greater than at their end, and there is no interval (`tells_of`). And it is
used only where it has lately brought predictions nearer to what came true, within the intervals
given (`judged`): after a thousand short jobs the first long ones would be predicted by a line that
knows none of their kind, and the tasks of an array, whose waits are all alike, look like many jobs.

The coefficient of correlation measures the accuracy that is left. No straight line alters it; it
changes when each prediction is corrected by what was known when it was made, as `judged` does it.
Where all waits are nearly alike neither it nor the line says anything: a forecast of 20 s for each
of twenty waits of 19 to 21 s is a good one, and its correlation is that of noise (`is_spread`).

Whether forecasts are to be relied on is therefore asked of themselves (`trust`): by what factor
half of the last ones were off, and how many waits fell within the interval that was shown. A wide
interval that holds misleads nobody.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import median
from typing import NamedTuple

LEAST_WAIT_S = 1.0  # a wait that is shorter counts as this: its logarithm says nothing
FEWEST = 20  # outcomes, before anything is corrected
NARROWEST = 1e-9  # variance of ln predicted, below which no slope is seen
LEAST_APART = 0.25  # s.d. of the logarithms, below which waits are alike
NORMAL_90 = 1.644854
LEAST_SPREAD = 0.05  # no waits are surer than that, however alike those before were
LONGEST_LOG = 40.0  # of a corrected prediction
LATELY = 50  # outcomes, over which it is looked whether corrections help,
PROVEN = 10  # intervals held against what came true, before one is said to promise nine in ten
COVERS = 0.8  # and whether so many were inside the interval that promises nine in ten
SHORT_S = 10.0  # how many times shorter a wait was than this is nobody's trouble
GRACE_S = 1.0  # from the moment when a slot is free until the job has begun there
OFF_BY_MUCH = 3.0  # half of them: they mislead,
OFF_BY_LESS = 2.0  # and no more below this: what is said does not come and go between two looks


Outcome = tuple[float, float]  # seconds: predicted, actual


class CameTrue(NamedTuple):
    """A forecast, and how long the wait was: in seconds."""

    predicted_s: float  # before it was corrected
    actual_s: float
    shown_s: float | None = None  # None: the same
    within_s: tuple[float, float] | None = None  # the interval that was shown

    @property
    def outcome(self) -> Outcome:
        return self.predicted_s, self.actual_s


@dataclass(frozen=True, slots=True)
class Correction:
    """ln(actual) = intercept + slope · ln(predicted), give or take `spread`."""

    slope: float = 1.0  # β1
    intercept: float = 0.0  # β0, of natural logarithms of seconds
    spread: float = math.inf  # s.d. of ln(actual) about the line; infinite: not known
    jobs: int = 0  # it was learnt from
    shortest_log: float = -math.inf  # ln of the predictions that it was learnt from
    longest_log: float = math.inf

    @property
    def is_known(self) -> bool:
        """Whether it says anything."""
        return not math.isinf(self.spread)

    @property
    def intercept_log10(self) -> float:
        return self.intercept / log(10)

    def tells_of(self, predicted_s: float) -> bool:
        """Whether it was learnt from such predictions. How far off others are nobody knows."""
        x = log_of(predicted_s)
        is_within = self.shortest_log <= x <= self.longest_log
        return self.is_known and (predicted_s <= 0 or is_within)

    def corrected_s(self, predicted_s: float) -> float:
        """Returns p_corr of section 5.4; a prediction of no wait stays 0."""
        if predicted_s <= 0:
            return 0.0
        if (self.slope, self.intercept) == (1.0, 0.0):
            return predicted_s
        return exp(min(self._corrected(log_of(predicted_s)), LONGEST_LOG))

    def _corrected(self, x: float) -> float:
        """Of logarithms. Rises with x."""
        nearest = min(max(x, self.shortest_log), self.longest_log)
        y = self.intercept + self.slope * nearest
        if x > nearest:  # made longer there: no longer than that; shorter: by the same factor
            return max(y, x + min(0.0, y - nearest))
        return min(y, x + max(0.0, y - nearest)) if x < nearest else y

    def interval_90_s(self, predicted_s: float) -> tuple[float, float]:
        """Where nine waits in ten end that were predicted so; from 0 to infinity if not known."""
        if predicted_s <= 0:
            return 0.0, 0.0
        if not self.is_known:
            return 0.0, math.inf
        factor = exp(min(NORMAL_90 * max(self.spread, LEAST_SPREAD), LONGEST_LOG))
        return self.corrected_s(predicted_s) / factor, self.corrected_s(predicted_s) * factor


@dataclass(slots=True)
class Bias:
    """The line through all outcomes so far, kept by running sums: an outcome costs the same
    however many there were."""

    jobs: int = 0
    _predicted: float = 0.0  # mean logarithms,
    _actual: float = 0.0
    _xx: float = 0.0  # and the sums of squares and products about them
    _xy: float = 0.0
    _yy: float = 0.0
    _shortest: float = math.inf
    _longest: float = -math.inf

    def learn(self, predicted_s: float, actual_s: float) -> None:
        """An outcome, in seconds; what is not a finite number above or equal to 0 is left out."""
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
        """As fitted, however few the outcomes; slope 1 where predictions never differ."""
        if not self.jobs:
            return Correction()
        slope = self._xy / self._xx if self._xx > NARROWEST * self.jobs else 1.0
        left = max(0.0, self._yy - 2 * slope * self._xy + slope**2 * self._xx)
        spread = math.sqrt(left / (self.jobs - 2)) if self.jobs > 2 else math.inf
        intercept = self._actual - slope * self._predicted
        return Correction(slope, intercept, spread, self.jobs, self._shortest, self._longest)

    def correction(self) -> Correction:
        """To decide by: none from fewer than `FEWEST`, and none that says that what is predicted
        to take longer takes less."""
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
    line: Correction  # through the predictions as they were
    raw: float | None  # coefficients of correlation, of them
    corrected: float | None  # and of the corrected ones
    corrected_line: Correction
    covered_90: float | None  # the share of waits inside the interval given beforehand
    intervals: int  # that were given
    # Whether the corrected ones were nearer to what came true, lately, and inside their intervals
    helps: bool

    is_spread: bool  # are both far enough apart for a line to say anything?


def judged(outcomes: Sequence[Outcome]) -> Judgement:
    """Each prediction, in order of outcomes, corrected by those before it, and held against what
    came true."""
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
    """How far a prediction was from what came true: the factor, as a logarithm."""
    return abs(log_of(predicted_s) - log_of(actual_s))


@dataclass(frozen=True, slots=True)
class Trust:
    """How the last forecasts came true."""

    count: int
    off_by: float = 1.0  # half of them, by this factor or more; short waits count as `SHORT_S`
    intervals: int = 0  # that were shown,
    held: int = 0  # and that the wait was in

    def misleads(self, *, was_said: bool = False) -> bool:
        """`was_said`: the last time that it was asked."""
        holds = self.intervals >= PROVEN and self.held >= COVERS * self.intervals
        limit = OFF_BY_LESS if was_said else OFF_BY_MUCH
        return self.count >= FEWEST and self.off_by >= limit and not holds


def trust(forecasts: Sequence[CameTrue]) -> Trust:
    """In the order in which they came true: the last ones count."""
    lately = forecasts[-LATELY:]
    if not lately:
        return Trust(0)
    factors = [
        exp(abs(log(max(one.actual_s, SHORT_S) / max(shown_s, SHORT_S))))
        for one in lately
        for shown_s in [one.predicted_s if one.shown_s is None else one.shown_s]
    ]
    held = [
        low_s - GRACE_S <= one.actual_s <= high_s + GRACE_S
        for one in lately if one.within_s is not None
        for low_s, high_s in [one.within_s]
    ]  # fmt: skip
    return Trust(len(lately), median(factors), len(held), sum(held))


def log_of(wait_s: float) -> float:
    return log(max(wait_s, LEAST_WAIT_S))
