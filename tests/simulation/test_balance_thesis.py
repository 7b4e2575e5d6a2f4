"""What Zhou's thesis (1987, chapter 3) finds, where it does not depend on a parameter: in our
simulator, so in the placement code of the daemons. All runs of a test have the same jobs."""

from functools import cache

from lbd.sim.balance.runs import BalanceResult, run_once, summed_up
from lbd.sim.balance.setup import EVERY, Setup, with_settings
from lbd.sim.balance.workload import WORKLOADS

BERKELEY = WORKLOADS["berkeley"]
REPLICATIONS = 3
INFORMED = ("CENTRAL", "GLOBAL", "DISTED", "THRHLD", "LOWEST", "RESERVE")


@cache
def result(
    algorithm: str, load: float = 0.7, hosts: int = 14, minutes: float = 10, *words: str
) -> BalanceResult:
    setup = Setup(BERKELEY, hosts=hosts, utilisation=load, duration_s=minutes * 60)
    nolb = [run_once(setup, "NOLB", n) for n in range(REPLICATIONS)]
    setup = with_settings(setup, list(words))
    return summed_up([run_once(setup, algorithm, n) for n in range(REPLICATIONS)], nolb)


def ratio(algorithm, *more):
    return result(algorithm, *more).ratio_to_nolb


def test_the_order_of_the_algorithms():
    """NoCOST < PartCOST < CENTRAL ≤ the other informed ones < RANDOM < NOLB."""
    ratios = {name: ratio(name) for name in EVERY}
    assert ratios["NoCOST"] < ratios["PartCOST"] < min(ratios[name] for name in INFORMED)
    assert ratios["CENTRAL"] <= min(ratios[name] for name in INFORMED) + 0.02
    assert max(ratios[name] for name in INFORMED) < ratios["RANDOM"] < ratios["NOLB"] == 1.0


def test_response_times_also_become_more_predictable():
    assert result("LOWEST").sd_response_s < 0.7 * result("NOLB").sd_response_s


def test_a_tenth_to_a_fifth_of_all_jobs_moves():
    """Section 3.4.4. Few transfers are wrong where loads are asked for, or known at one place."""
    assert all(0.05 < result(name).transferred < 0.2 for name in INFORMED)
    for name in ("CENTRAL", "THRHLD", "LOWEST"):
        assert result(name).wrong_transfers < 0.03 * result(name).transferred
    assert result("RANDOM").wrong_transfers > 0.3 * result("RANDOM").transferred


def test_the_gain_grows_with_the_load():
    gains = [1 - ratio("LOWEST", load) for load in (0.4, 0.6, 0.8)]
    assert gains == sorted(gains)


def test_the_exchange_period_has_a_best_value_between_too_short_and_too_long():
    short, middle, long = (
        result("GLOBAL", 0.75, 14, 10, f"exchange_period_s={period}") for period in (0.1, 1, 20)
    )
    assert middle.mean_response_s < min(short.mean_response_s, long.mean_response_s)
    assert short.overhead > 3 * middle.overhead
    assert long.wrong_transfers > 2 * middle.wrong_transfers


def test_disted_gets_worse_as_hosts_are_added():
    against_global = [
        ratio("DISTED", 0.63, hosts, 5) / ratio("GLOBAL", 0.63, hosts, 5) for hosts in (7, 21, 42)
    ]
    assert against_global == sorted(against_global)
    cost = [result("DISTED", 0.63, hosts, 5).overhead for hosts in (7, 42)]
    assert cost[1] > 4 * cost[0]


def test_half_of_the_jobs_may_be_immobile():
    gains = [1 - ratio("GLOBAL", 0.64, 14, 10, f"immobile={share}") for share in (0, 0.5, 1)]
    assert gains[1] > 0.5 * gains[0]
    assert gains[2] < 0.01  # the exchange goes on, for nothing
