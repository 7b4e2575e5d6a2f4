import pytest

from lbd.errors import ConfigError
from lbd.sim.balance.setup import Setup, algorithms, with_settings
from lbd.sim.balance.trace import dealt_out, read_jobs, utilisation
from lbd.sim.balance.workload import WORKLOADS, Stream, drawn_jobs, mean_demand_s

BERKELEY = WORKLOADS["berkeley"]


def test_settings_go_where_they_belong():
    words = ["probe_limit=5", "lim.min_gain=0.5", "send_s=0.001", "speeds=1,2", "immobile=0.4"]
    setup = with_settings(Setup(BERKELEY), words)
    assert (setup.lim.probe_limit, setup.lim.min_gain) == (5, 0.5)
    assert (setup.costs.send_s, setup.immobile) == (0.001, 0.4)
    assert [setup.power(n) for n in range(3)] == [(1.0, 1.0), (1.0, 2.0), (1.0, 1.0)]


@pytest.mark.parametrize(
    ("word", "part"),
    [
        ("probe_limit", "PARAM=VALUE"),
        ("probe_limt=3", '"probe_limit"'),
        ("probe_limit=x", "whole number"),
        ("probe_limit=0", "1 to 1024"),
        ("probe_limit=1.5", "whole number"),
        ("min_gain=nan", "out of range"),
        ("immobile=2", "0 to 1"),
        ("speeds=1,0", "0.01 to 100"),
        ("index=que", 'did you mean "queue"'),
        ("disks=1.5", "whole number"),
    ],
)
def test_an_error_is_reported_in_one_line(word, part):
    with pytest.raises(ConfigError) as caught:
        with_settings(Setup(BERKELEY), [word])
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nolb_is_always_first():
    assert algorithms("lowest") == ("NOLB", "LOWEST")
    assert algorithms("NoLB") == ("NOLB",)
    assert algorithms("nocost") == ("NOLB", "NoCOST")
    assert algorithms("ALL")[0] == "NOLB"
    assert len(algorithms("all")) == 12
    with pytest.raises(ConfigError):
        algorithms("LOWESTT")


# -- jobs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "below_half"),
    [("berkeley", (0.60, 0.66)), ("bell", (0.75, 0.83)), ("lbl", (0.72, 0.83))],
)
def test_jobs_have_the_published_distribution(name, below_half):
    """Quantiles of section 5.2: 60 to 83 % below half a second, 3 to 7 % above four."""
    jobs = drawn_jobs(Stream(WORKLOADS[name], [1.0] * 20, 0.6, 20000.0, 0.0), "1")
    cpu = [job.cpu_s for job in jobs]
    assert below_half[0] <= sum(s < 0.5 for s in cpu) / len(cpu) <= below_half[1]
    assert 0.03 <= sum(s > 4 for s in cpu) / len(cpu) <= 0.071


@pytest.mark.parametrize("load", [0.3, 0.8])
def test_the_arriving_work_is_as_requested(load):
    stream = Stream(BERKELEY, [1.0, 2.0] * 10, load, 20000.0, 0.0)
    work_s = sum(job.cpu_s for job in drawn_jobs(stream, "1"))
    assert work_s / (30 * 20000.0) == pytest.approx(load, rel=0.1)


def test_the_jobs_of_a_host_depend_only_on_the_seed_and_its_number():
    few = drawn_jobs(Stream(BERKELEY, [1.0] * 2, 0.6, 600.0, 0.0, imbalance=0.0), "1")
    many = drawn_jobs(Stream(BERKELEY, [1.0] * 9, 0.6, 600.0, 0.0, imbalance=0.0), "1")
    first = [(job.arrived_s, job.cpu_s) for job in few if job.origin == 1]
    assert first == [(job.arrived_s, job.cpu_s) for job in many if job.origin == 1]
    assert [job.number for job in many] == list(range(len(many)))
    other = drawn_jobs(Stream(BERKELEY, [1.0] * 2, 0.6, 600.0, 0.0, imbalance=0.0), "2")
    assert first != [(job.arrived_s, job.cpu_s) for job in other if job.origin == 1]


def test_the_mean_of_truncated_demands():
    assert mean_demand_s(BERKELEY, 1e9) == pytest.approx(1.492)
    assert mean_demand_s(BERKELEY, 10.0) == pytest.approx(1.0265, abs=1e-4)


# -- traces --------------------------------------------------------------------------------------

SWF = "; a comment\n1 100 5 20 1 -1 -1 1 60 -1 1 1 1 -1 1 -1 -1 -1\n"


@pytest.mark.parametrize(
    ("text", "jobs"),
    [
        ("0 1.5\n2,0.5,7\n", [(0.0, 1.5, 0, ""), (2.0, 0.5, 7, "")]),
        ("# c\ncpu_s,x,start_epoch\n3,a,1000\n4,b,990\n", [(0.0, 4.0, 0, ""), (10.0, 3.0, 0, "")]),
        ("time cpu ios host\n5 1 2 a\n6 1 2 b\n", [(0.0, 1.0, 2, "a"), (1.0, 1.0, 2, "b")]),
        (SWF, [(0.0, 20.0, 0, "")]),
        ("1 2\n2 0\n3 -1\n", [(0.0, 2.0, 0, "")]),
        (f"cpu_s,time{',x' * 16}\n4,8{',9' * 16}\n", [(0.0, 4.0, 0, "")]),  # not SWF: a heading
    ],
)
def test_traces_are_read(text, jobs):
    assert list(read_jobs(text.splitlines(), "f")) == jobs


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no job"),
        ("1 -2\n", "no job"),
        ("a b\n", "f:1: neither a job"),
        ("1e300 1 3\n", "f:1: neither a job"),
        ("1 2\n3 x\n", "f:2: not a job"),
        ("1\n", "f:1: not a job"),
        ("1 nan\n", "f:1: not a job"),
    ],
)
def test_broken_traces_name_the_line(text, part):
    with pytest.raises(ConfigError) as caught:
        read_jobs(text.splitlines(), "f")
    assert part in str(caught.value)


def test_a_trace_is_distributed_and_stretched():
    trace = read_jobs(["0 1 0 a", "10 1 0 b", "20 2 0 a", "30 1 0 c"], "f")
    jobs = dealt_out(trace, 2, 1000.0, 0.0, "1", stretch=2.0)
    assert [(job.origin, job.arrived_s) for job in jobs] == [
        (0, 0.0),
        (1, 20.0),
        (0, 40.0),
        (0, 60.0),
    ]
    assert utilisation(trace, 2.0) == pytest.approx(5 / 60)
    assert len(dealt_out(trace, 2, 15.0, 0.0, "1")) == 2
