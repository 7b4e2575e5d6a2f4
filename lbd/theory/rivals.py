"""What TAGS is compared with: Random, Least-Work-Remaining, SITA-E (paper, sections 1, 2 and 5.1).

All are first come, first served at each host, with Poisson arrivals. Waiting is in seconds;
slowdown is waiting over size.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

from lbd.theory.cutoffs import Infeasible, solve
from lbd.theory.tags import Traffic

REASONABLE_SLOWDOWN = 3.0  # section 6.1


@dataclass(frozen=True, slots=True)
class Means:
    waiting_s: float
    slowdown: float


ENDLESS = Means(math.inf, math.inf)  # at a load of 1 or more


def mg1(rate_per_s: float, mean_s: float, square_s2: float, inverse_per_s: float) -> Means:
    """Pollaczek and Khinchine's M/G/1 queue (Theorem 1), from E[X], E[X²] and E[1/X]."""
    spare = 1.0 - rate_per_s * mean_s
    if spare <= 0:
        return ENDLESS
    waiting_s = rate_per_s * square_s2 / (2.0 * spare)
    return Means(waiting_s, waiting_s * inverse_per_s)


def at_random(traffic: Traffic) -> Means:
    """Random: each host is an M/G/1 queue with 1/h of the arrivals (section 5.1)."""
    sizes = traffic.sizes
    rate = traffic.rate_per_s / traffic.hosts
    return mg1(rate, sizes.mean_s, sizes.moment(2.0), sizes.moment(-1.0))


def least_work(traffic: Traffic) -> Means:
    """Least-Work-Remaining, equal to a central queue: M/G/h, by the usual approximation

        E[Q] = E[Q of M/M/h] · E[X²] / E[X]² · ½

    The paper's formula (section 5.1) lacks the ½; without it one host would wait twice what
    Pollaczek and Khinchine prove, and an exponential size twice the exact value.
    """
    if traffic.load >= 1:
        return ENDLESS
    sizes = traffic.sizes
    queue_mmh = erlang_c(traffic.hosts, traffic.total) * traffic.load / (1.0 - traffic.load)
    variability = sizes.moment(2.0) / sizes.mean_s**2
    waiting_s = queue_mmh * variability / 2.0 / traffic.rate_per_s
    return Means(waiting_s, waiting_s * sizes.moment(-1.0))


def erlang_c(servers: int, offered: float) -> float:
    """Returns the probability that an arrival at M/M/servers waits; `offered` = λ E[X] below
    `servers`."""
    inverse_b = 1.0  # the inverse of Erlang's B, by its recursion
    for n in range(1, servers + 1):
        inverse_b = 1.0 + inverse_b * n / offered
        if inverse_b > 1e200:
            return 0.0
    return 1.0 / (inverse_b - (inverse_b - 1.0) * offered / servers)


def sita_cuts(traffic: Traffic) -> list[float]:
    """Returns the cuts 0 = y_0 … y_h = ln(p/k) that give each host the same work."""
    sizes, hosts = traffic.sizes, traffic.hosts
    return [0.0, *(sizes.y_of_work(i / hosts) for i in range(1, hosts)), sizes.width]


def sita_cutoffs_s(traffic: Traffic) -> tuple[float, ...]:
    """Returns SITA-E's s_1 … s_{h-1}: job sizes, CPU seconds."""
    return tuple(traffic.sizes.size(y) for y in sita_cuts(traffic)[1:-1])


def sita_e(traffic: Traffic) -> Means:
    """SITA-E: sizes are known, and each host serves one interval of them, all of equal work."""
    if traffic.load >= 1:
        return ENDLESS
    sizes, rate = traffic.sizes, traffic.rate_per_s
    cuts = sita_cuts(traffic)
    waiting_s = slowdown = 0.0
    for a, b in pairwise(cuts):
        here_s = rate * sizes.part_y(2.0, a, b) / (2.0 * (1.0 - traffic.load))
        waiting_s += here_s * sizes.part_y(0.0, a, b)
        slowdown += here_s * sizes.part_y(-1.0, a, b)
    return Means(waiting_s, slowdown)


# Server expansion (section 6.1)


def expansion(traffic: Traffic, policy: str) -> int | None:
    """Returns how many hosts must be added, arrivals unchanged, until mean slowdown is
    reasonable.

    None if the number exceeds the policy's bound. `policy` is one of `EXPANSIONS`.
    """
    slowdown, most = EXPANSIONS[policy]
    low, high, step = traffic.hosts - 1, traffic.hosts, 1
    while slowdown(with_hosts(traffic, high)) > REASONABLE_SLOWDOWN:
        low, high, step = high, high + step, 2 * step
        if high > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = slowdown(with_hosts(traffic, middle)) <= REASONABLE_SLOWDOWN
        low, high = (low, middle) if enough else (middle, high)
    return high - traffic.hosts


def with_hosts(traffic: Traffic, hosts: int) -> Traffic:
    """Returns the same arrivals for more hosts."""
    return replace(traffic, hosts=hosts, load=traffic.total / hosts)


def tags_slowdown(traffic: Traffic) -> float:
    found = solve(traffic, "slowdown")
    return math.inf if isinstance(found, Infeasible) else found.slowdown


# Mean slowdown, and the number of hosts at which to give up.
EXPANSIONS: dict[str, tuple[Callable[[Traffic], float], int]] = {
    "tags": (tags_slowdown, 32),
    "least-work": (lambda traffic: least_work(traffic).slowdown, 10_000),
    "random": (lambda traffic: at_random(traffic).slowdown, 10**15),
}
