"""Each algorithm in virtual time: what it sends, how it places, what it does without the centre."""

from random import Random

import pytest

from lbd.config.schema import ALGORITHMS, LimConfig
from lbd.lim.core import events as e
from lbd.lim.core.placement import job_of
from lbd.model import HostId, JobId, Verdict
from lbd.policy.view import Nowhere
from lbd.testing.builders import request
from lbd.testing.virtual_cluster import VirtualCluster, settled
from tests.bench import load_bytes

SEEDS = range(1, 6)
PARAMS = LimConfig()


# -- messages ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("hosts", "seconds"), [(4, 60), (40, 30)])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_idle_cluster_sends_only_its_keep_alives(algorithm, hosts, seconds):
    cluster = VirtualCluster(hosts, 1, LimConfig(algorithm=algorithm))
    cluster.check_each_event = hosts < 10
    cluster.run(60)  # everybody has greeted everybody
    for host in cluster.hosts.values():
        host.sent.clear()
    cluster.run(seconds)
    beat_s = min(PARAMS.keepalive_s, PARAMS.centre_silence_s / 3)
    per_host = cluster["h1"].sent["Delta"] / (hosts - 1)
    assert per_host <= seconds / beat_s + seconds / PARAMS.keepalive_s + 1
    for host in cluster.hosts.values():
        assert host.sent["Report"] <= seconds / PARAMS.keepalive_s + 1
        assert sum(host.sent.values()) == host.sent["Report"] + host.sent["Delta"]
        assert host.state.me == "h1" or not host.sent["Delta"]


def restless(algorithm: str) -> VirtualCluster:
    """Six hosts whose load jumps every second for 30 s; `sent` covers that time."""
    cluster = VirtualCluster(6, 1, LimConfig(algorithm=algorithm))
    cluster.run(20)
    for host in cluster.hosts.values():
        host.sent.clear()
    rng = Random(1)
    for _ in range(30):
        cluster.load(**{name: rng.uniform(0, 6) for name in cluster.names})
        cluster.run(1.0)
    return cluster


# Each host's messages in 31 periods and 7 keep-alives; the vectors are the centre's, to 5 hosts.
PERIODS, BEATS, OTHERS, R = 31, 7, 5, LimConfig().reservations
BOUNDS = {
    "GLOBAL": {"Report": PERIODS, "Delta": PERIODS * OTHERS},
    "CENTRAL": {"Report": PERIODS, "Delta": 4 * BEATS * OTHERS},  # it reports no changes to others
    "DISTED": {"Report": PERIODS * OTHERS + BEATS, "Delta": 4 * BEATS * OTHERS},
    "RANDOM": {"Report": BEATS, "Delta": 4 * BEATS * OTHERS},
    "THRHLD": {"Report": BEATS, "Delta": 4 * BEATS * OTHERS},
    "LOWEST": {"Report": BEATS, "Delta": 4 * BEATS * OTHERS},
    "RESERVE": {
        "Report": BEATS, "Delta": 4 * BEATS * OTHERS, "Reserve": PERIODS * R,
        "Unreserve": PERIODS * R,
    },
    "NOLB": {"Report": BEATS, "Delta": 4 * BEATS * OTHERS},
    "P2C": {"Report": PERIODS, "Delta": PERIODS * OTHERS},
    "PREDICT": {"Report": PERIODS, "Delta": PERIODS * OTHERS},
}  # fmt: skip


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_restless_cluster_sends_no_more_than_its_bound(algorithm):
    for name, host in restless(algorithm).hosts.items():
        bounds = BOUNDS[algorithm] if name == "h1" else {**BOUNDS[algorithm], "Delta": 0}
        for kind, count in host.sent.items():
            assert count <= bounds.get(kind, 0), (name, kind, count)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_loads_that_jump_each_second_and_commands_stay_within_the_thesis_bound(algorithm):
    """For all hosts together, without keep-alives. GLOBAL comes near it; NOLB has keep-alives
    only."""
    _, _, sent = load_bytes.measure(10, algorithm, 20, 1, jump_s=1.0)
    most = load_bytes.bound(algorithm, 10)
    assert sent <= most + load_bytes.keep_alives(10)
    if algorithm in ("GLOBAL", "CENTRAL"):
        assert sent >= 0.7 * most
    assert (most == 0) == (algorithm in ("NOLB", "RANDOM"))


def test_under_disted_each_host_reports_its_changes_to_all():
    cluster = settled(5, 1, LimConfig(algorithm="DISTED"))
    cluster.run(2.2)
    cluster["h1"].sent.clear()
    cluster.load(h4=5.0)
    cluster.run(PARAMS.exchange_period_s * 2 + 0.1)
    for host in cluster.alive():
        assert host.state.table.entries[HostId("h4")].sample.vector.index > 2.0


# -- commands ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["GLOBAL", "DISTED", "CENTRAL", "LOWEST"])
def test_a_busy_host_sends_its_commands_to_idle_ones(algorithm):
    cluster = settled(4, 1, LimConfig(algorithm=algorithm, probe_limit=3))
    cluster.load(h2=4.0)
    cluster.run(12)
    placed = [cluster.place("h2", request(f"h2-{n}"))[0] for n in range(6)]
    assert [p.verdict for p in placed] == [Verdict.THERE] * 6
    # each pick is charged at once, so no host gets more than its two slots
    assert sorted(p.host for p in placed) == ["h1", "h1", "h3", "h3", "h4", "h4"]


BALANCING = [name for name in ALGORITHMS if name != "NOLB"]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("algorithm", BALANCING)
def test_short_commands_in_sequence_leave_no_charge_behind(algorithm, seed):
    """At least half of all commands move, however many there are: their charges end with them."""
    cluster = settled(4, seed, LimConfig(algorithm=algorithm))
    cluster.check_each_event = False
    cluster.load(h2=4.0, h4=4.0)
    cluster.run(12)
    moved = 0
    for n in range(200):
        origin = cluster.rng.choice(("h2", "h4"))
        decision, _ = cluster.place(origin, request(f"{origin}-{n}"))
        cluster.run(0.05)
        cluster.handle(cluster[origin], e.JobEnded(JobId(f"{origin}-{n}")))
        moved += decision.host in ("h1", "h3")
    cluster.run(2 * PARAMS.exchange_period_s)
    assert moved >= (20 if algorithm == "RESERVE" else 100)
    assert all(host.state.table.charged_jobs() == 0 for host in cluster.alive())


def test_a_centre_that_hears_of_no_end_and_no_change_lets_the_charge_fade():
    cluster = settled(3, 1, LimConfig(algorithm="CENTRAL"))
    cluster.load(h2=4.0)
    cluster.run(12)
    assert cluster.place("h2", request("a"))[0].host in ("h1", "h3")
    charged = cluster["h1"].state.table.charged_host(job_of(HostId("h2"), JobId("a")))
    cluster.crash("h2")  # so nobody will report the end
    assert cluster["h1"].state.table.charges(charged) == 1.0
    # two of silence, up to one until the centre looks, and two in which it fades
    cluster.run(5 * PARAMS.exchange_period_s)
    assert cluster["h1"].state.table.charges(charged) < 0.7


def test_nolb_keeps_everything():
    cluster = settled(3, 1, LimConfig(algorithm="NOLB"))
    cluster.load(h2=6.0)
    cluster.run(12)
    decision, _ = cluster.place("h2", request())
    assert (decision.verdict, decision.reason) == (Verdict.HERE, "no-balancing")


@pytest.mark.parametrize("fault", ["crash", "stop", "cut"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_losing_the_centre_never_hinders_a_command(algorithm, fault):
    cluster = settled(3, 2, LimConfig(algorithm=algorithm))
    cluster.load(h3=5.0)
    cluster.run(12)
    getattr(cluster, fault)("h1")
    for n in range(20):
        decision, took_s = cluster.place("h3", request(f"h3-{n}"))
        assert not isinstance(decision, Nowhere)
        assert took_s <= PARAMS.probe_timeout_s + 0.01
        cluster.run(0.5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_without_any_other_host_everything_runs_here_at_once(algorithm):
    cluster = settled(3, 3, LimConfig(algorithm=algorithm))
    cluster.load(h2=5.0)
    cluster.run(12)
    cluster.cut("h2")
    cluster.run(PARAMS.down_after_s + 5)
    decision, took_s = cluster.place("h2", request())
    assert (decision.verdict, decision.reason) == (Verdict.HERE, "no-peer")
    assert took_s == 0.0


def test_the_wait_for_a_silent_centre_happens_once_not_per_command():
    cluster = settled(3, 4, LimConfig(algorithm="CENTRAL"))
    cluster.load(h3=5.0)
    cluster.run(12)
    cluster.stop("h1")
    took_s = [cluster.place("h3", request(f"h3-{n}"))[1] for n in range(10)]
    assert took_s[0] == pytest.approx(PARAMS.probe_timeout_s, abs=0.01)
    assert took_s[1:] == [0.0] * 9


def test_under_central_the_centre_charges_its_copy():
    cluster = settled(4, 5, LimConfig(algorithm="CENTRAL"))
    cluster.load(h3=5.0, h4=5.0)
    cluster.run(12)
    hosts = [cluster.place(f"h{3 + n % 2}", request(f"x-{n}"))[0].host for n in range(4)]
    # two hosts that know nothing of each other's picks still do not pile up on one
    assert sorted(hosts) == ["h1", "h1", "h2", "h2"]
    assert cluster["h1"].state.table.charged_jobs() == 4
    cluster.run(PARAMS.down_after_s + 2)
    assert cluster["h1"].state.table.charged_jobs() == 0  # nobody reported their end


def test_lowest_asks_no_more_than_its_limit_and_stops_at_an_empty_host():
    cluster = settled(8, 6, LimConfig(algorithm="LOWEST", probe_limit=3))
    cluster.load(**{f"h{n}": 5.0 for n in range(1, 9)})
    cluster.run(12)
    cluster["h2"].sent.clear()
    cluster.place("h2", request("a"))
    assert cluster["h2"].sent["Probe"] == 3
    cluster.load(**{f"h{n}": 0.0 for n in range(3, 9)}, h1=0.0)
    cluster.run(12)
    cluster["h2"].sent.clear()
    cluster.place("h2", request("b"))
    assert cluster["h2"].sent["Probe"] == 1
