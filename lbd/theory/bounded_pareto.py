"""The bounded Pareto distribution B(k, p, α): many small jobs, a few huge ones, none beyond p.

Harchol-Balter, "Task Assignment with Unknown Duration" (TAGS), section 3, equation (1), and the
appendix. Sizes are CPU seconds, k ≤ x ≤ p, with density

    f(x) = α k^α x^(-α-1) / (1 - (k/p)^α)

The appendix's formulas for the moments divide by α - j and by 1 - (k/p)^α, so they need special
cases for α = 1 and α = 2, lose all digits near them, and fail at α = 0. Here sizes are x = k·e^y
with 0 ≤ y ≤ ln(p/k), where every such formula is one integral,

    ∫ e^(βy) dy = e^(βa) · (e^(β(b-a)) - 1) / β    over a ≤ y ≤ b,  β = j - α

and `expm1` computes it to full accuracy for every α, the limits included: at α = 0 the logarithm of
the size is uniform.
"""

import math
from dataclasses import dataclass, field
from random import Random

WIDEST = 1e150  # p/k: its square still fits a float
STEEPEST = 100.0  # a larger α is no heavy tail by any measure
TINY = 1e-300  # below it floats lose digits; both formulas have long reached their limits


@dataclass(frozen=True, slots=True)
class BoundedPareto:
    """B(k, p, α). Raises ValueError, one line, for invalid parameters."""

    k: float  # seconds, the smallest job
    p: float  # seconds, the largest job
    alpha: float  # the smaller, the heavier the tail; measured workloads lie near 1
    width: float = field(init=False, repr=False)  # ln(p/k), the range of y
    _mass: float = field(init=False, repr=False)  # ∫ e^(-αy) dy over the whole range

    def __post_init__(self) -> None:
        if not 0 < self.k < self.p < math.inf:
            raise ValueError(f"sizes from {self.k:g} to {self.p:g}: must be 0 < smallest < largest")
        if not 0 <= self.alpha <= STEEPEST:
            raise ValueError(f"alpha = {self.alpha:g}: must be 0 to {STEEPEST:g}")
        if self.p / self.k > WIDEST:
            raise ValueError(f"largest/smallest = {self.p / self.k:.3g}: at most {WIDEST:g}")
        set_once = object.__setattr__
        set_once(self, "width", log_ratio(self.p, self.k))
        set_once(self, "_mass", rise(-self.alpha, self.width))

    def part_y(self, j: float, a: float, b: float) -> float:
        """Returns E[X^j; a < ln(X/k) ≤ b], the contribution of those jobs to the j-th moment."""
        beta = j - self.alpha
        return math.pow(self.k, j) * math.exp(beta * a) * rise(beta, b - a) / self._mass

    def part(self, j: float, a: float, b: float) -> float:
        """Returns the partial moment E[X^j; a < X ≤ b], in seconds^j."""
        low, high = max(a, self.k), min(b, self.p)
        if low >= high:
            return 0.0
        beta, from_y = j - self.alpha, log_ratio(low, self.k)
        area = math.exp(beta * from_y) * rise(beta, log_ratio(high, low))
        return math.pow(self.k, j) * area / self._mass

    def moment(self, j: float) -> float:
        """Returns E[X^j], in seconds^j, for any real j (appendix, second line; -1 for the
        slowdown)."""
        return self.part_y(j, 0.0, self.width)

    @property
    def mean_s(self) -> float:
        return self.moment(1.0)

    @property
    def scv(self) -> float:
        """Squared coefficient of variation, Var X / E[X]².

        The paper uses this name for E[X²]/E[X]² (section 5.1), which is 1 more.
        """
        return self.moment(2.0) / self.mean_s**2 - 1.0

    def tail(self, x: float) -> float:
        """P(X > x)."""
        return 1.0 if x < self.k else self.part(0.0, x, self.p)

    def cdf(self, x: float) -> float:
        """P(X ≤ x)."""
        return self.part(0.0, self.k, x)

    def size(self, y: float) -> float:
        """Returns the size k·e^y, clamped to k … p."""
        return self.p if y >= self.width else min(self.p, self.k * math.exp(y))

    def quantile(self, u: float) -> float:
        """Returns the size that a share u of the jobs does not exceed, 0 ≤ u ≤ 1."""
        return self.p if u >= 1.0 else self.size(inverse_rise(-self.alpha, u * self._mass))

    def y_of_work(self, share: float) -> float:
        """Returns the y with this share of the work below it: E[X; ln(X/k) ≤ y] = share · E[X]."""
        beta = 1.0 - self.alpha
        return min(self.width, inverse_rise(beta, share * rise(beta, self.width)))

    def sample(self, rng: Random) -> float:
        """Draws one size, by inversion."""
        return self.quantile(rng.random())


def rise(beta: float, length: float) -> float:
    """Returns ∫ e^(βy) dy over 0 ≤ y ≤ length; `length` itself at β = 0."""
    z = beta * length
    return math.expm1(z) / beta if abs(z) > TINY else length


def inverse_rise(beta: float, area: float) -> float:
    """Returns the length over which `rise` equals `area`."""
    z = beta * area
    if z <= -1.0:  # more than the whole tail holds: rounding at the far end
        return math.inf
    return math.log1p(z) / beta if abs(z) > TINY else area


def log_ratio(a: float, b: float) -> float:
    """Returns ln(a/b), to full accuracy even if a is close to b."""
    return math.log1p((a - b) / b) if 0.5 < a / b < 2.0 else math.log(a / b)


def with_mean(mean_s: float, p: float, alpha: float) -> BoundedPareto:
    """Returns B(k, p, α) with this mean: the paper holds E[X] and p fixed and adjusts k (section
    3).

    Raises ValueError if no k > 0 that fits a float has that mean: as α → 0 the smallest job shrinks
    like e^(-p/mean).
    """
    if not 0 < mean_s < p < math.inf:
        raise ValueError(f"mean {mean_s:g} and largest {p:g}: must be 0 < mean < largest")
    if not 0 <= alpha <= STEEPEST:
        raise ValueError(f"alpha = {alpha:g}: must be 0 to {STEEPEST:g}")

    def mean_of(width: float) -> float:
        """Returns E[X]/p, where ln(p/k) is `width`."""
        return math.exp(-width) * rise(1.0 - alpha, width) / rise(-alpha, width)

    low, high = 0.0, math.log(WIDEST)
    if mean_of(high) > mean_s / p:
        raise ValueError(
            f"alpha = {alpha:g} is too small for mean {mean_s:g} and largest {p:g}:"
            f" the smallest job would be below {p / WIDEST:.0e} seconds"
        )
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return BoundedPareto(p * math.exp(-low), p, alpha)
        low, high = (middle, high) if mean_of(middle) > mean_s / p else (low, middle)
