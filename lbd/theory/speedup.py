"""How much faster a job is on n slots: Downey's model S(n; A, σ).

A. B. Downey, "Using Queue Time Predictions for Processor Allocation" (UCB/CSD-97-929, 1997),
section 2.1. A is the average parallelism, σ its variance: the variance of the parallelism profile
is V = σ(A - 1)², so σ is about the square of its coefficient of variation. σ ≤ 1 is the paper's
low-variance profile (equation 1, three pieces), σ ≥ 1 the high-variance one (equation 2, two
pieces). The pieces meet at n = A, 2A - 1 and A + Aσ - σ, the two branches at σ = 1. σ = 0 is linear
speedup up to A; for σ → ∞ equation 3's lower bound remains, An/(A + n - 1).

The model covers neither memory that few slots lack, nor communication that makes many slots slower:
a job's least and most slots are for these.
"""

import math
from dataclasses import dataclass

ROUNDING = 1e-9  # a number of slots this close above a whole number counts as that number


@dataclass(frozen=True, slots=True)
class Speedup:
    """S(n; A, σ). Raises ValueError, one line, for A below 1, σ below 0, or a value that is not
    finite."""

    parallelism: float  # A, slots
    sigma: float  # σ, no unit; 0 to 2 for the programs the paper measured

    def __post_init__(self) -> None:
        if not 1 <= self.parallelism < math.inf:
            raise ValueError(f"average parallelism {self.parallelism:g}: must be 1 or more")
        if not 0 <= self.sigma < math.inf:
            raise ValueError(f"variance in parallelism {self.sigma:g}: must be 0 or more")

    def at(self, slots: float) -> float:
        """Returns S(n) by equations 1 and 2. Raises ValueError below one slot."""
        if not slots >= 1:
            raise ValueError(f"{slots:g} slots: the speedup is that over one slot, from 1 on")
        return speedup_at(slots, self.parallelism, self.sigma)

    def run_s(self, work_s: float, slots: float) -> float:
        """R(n) = L/S(n), section 2.2: seconds on n slots for a job of `work_s` seconds on one
        slot."""
        return work_s / self.at(slots)


def speedup_at(slots: float, a: float, sigma: float) -> float:
    """S(n; A, σ), equations 1 and 2, unchecked: n and A are 1 or more, σ is 0 or more."""
    if sigma >= 1:
        work = a + sigma * (a - 1)
        return a if slots >= work else slots * a * (sigma + 1) / (work + slots * sigma)
    if slots <= a:
        return a * slots / (a + sigma * (slots - 1) / 2)
    if slots >= 2 * a - 1:
        return a
    return a * slots / (sigma * (a - 0.5) + slots * (1 - sigma / 2))
