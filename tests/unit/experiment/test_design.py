"""Options on the command line, and the runs they produce."""

import argparse
from collections import Counter

import pytest

from lbd.cli.lab import experiment as lab_experiment
from lbd.cli.lab import experiment_options as lab_experiment_options
from lbd.cli.program import Parser
from lbd.config.schema import ALGORITHMS
from lbd.errors import ConfigError, LbdError
from lbd.experiment import commands
from lbd.experiment.design import OF_LIM, Case, words_of
from lbd.sim.balance.setup import Setup, with_settings
from lbd.sim.balance.workload import SCRIPTS


def options(*words):
    parser = Parser("lbd lab experiment", "")
    parser.add_argument("--dir", default=None)
    lab_experiment_options.add_options(parser)
    return parser.parse_args(words)


def design(*words):
    return lab_experiment.designed(options(*words))


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("--commands", "awk,sotr"), 'did you mean "sort"'),
        (("--commands", "sort"), "at least one that may leave"),
        (("--load", "canonical", "--hosts", "2"), "takes 6 hosts"),
        (("--load", "heavvy"), 'did you mean "heavy"'),
        (("--load", ","), "name at least one"),
        (("--algorithm", "LOWES"), 'did you mean "LOWEST"'),
        (("--index", "smothed"), 'did you mean "smoothed"'),
        (("--index", "instant/4"), "must be smoothed/T, queue/T"),
        (("--index", "smoothed/x"), "must be smoothed/T"),
        (("--hosts", "1000"), "254 at most"),
        (
            ("--duration", "1s", "--demand", "100"),
            "too short for any user to start a command of 100 s",
        ),
        (("--set", "nonsense"), "must be section.key=value"),
    ],
)
def test_an_impossible_design_is_refused(words, hint):
    with pytest.raises(ConfigError) as problem:
        design(*words)
    assert hint in str(problem.value)


@pytest.mark.parametrize("given", ["0", "0.5s", "-1", "soon"])
def test_a_run_has_a_length(given):
    with pytest.raises(argparse.ArgumentTypeError):
        lab_experiment_options.span(given)


def test_the_printed_line_produces_the_same_design_again():
    first = design("--seed", "7", "--demand", "0.12345678", "--cpus", "0.3333333333",
                   "--load", "skewed,heavy", "--index", "instant,queue/20",
                   "--set", "lim.probe_limit=2", "--algorithm", "lowest,NOLB")  # fmt: skip
    words = first.line("out").split()
    assert words[:3] == ["lbd", "lab", "experiment"]
    assert design(*words[3:]) == first
    assert first.algorithms == ("LOWEST",)


def test_nolb_runs_once_per_load_and_replication_and_the_seed_sets_the_order():
    wanted = design("--load", "canonical,light", "--index", "instant,smoothed/4,queue/20",
                    "--algorithm", "GLOBAL,LOWEST", "--replications", "3")  # fmt: skip
    cases = wanted.cases()
    assert len(set(cases)) == len(cases) == 2 * 3 * (1 + 3 * 2)
    count = Counter((case.load, case.algorithm, case.index) for case in cases)
    assert set(count.values()) == {3}
    assert count["light", "NOLB", "instant"] == 3
    assert cases == wanted.cases()


def test_all_means_all_that_exist():
    assert set(design("--algorithm", "all").algorithms) == set(ALGORITHMS) - {"NOLB"}


def test_times_shrink_with_the_jobs_and_queues_are_divided_by_cores():
    wanted = design("--cpus", "0.2", "--demand", "0.298")  # 1.49 s alone: a fifth of 7.45 s
    found = wanted.parameters(Case("canonical", "GLOBAL", "smoothed/4", 0))
    assert found["lim.exchange_period_s"] == pytest.approx(1.0)
    assert found["load.smoothing_s"] == pytest.approx(0.8)
    assert found["lim.local_threshold"] == pytest.approx(4.0)
    of_cpus = wanted.parameters(Case("canonical", "GLOBAL", "utilisation/10", 0))
    assert of_cpus["lim.local_threshold"] == 0.8  # a share of the cores already
    assert of_cpus["load.index"] == "utilisation"
    of_queue = wanted.parameters(Case("canonical", "GLOBAL", "queue/4", 0))
    assert (of_queue["load.index"], of_queue["load.io_weight"]) == ("smoothed", 0.0)


@pytest.mark.parametrize(
    ("index", "is_utilisation", "smoothing_s"),
    [
        ("smoothed/4", False, 0.8),
        ("queue/20", False, 4.0),
        ("utilisation/10", True, 2.0),
        ("instant", False, 0.0),
        ("load-average", False, 60.0),
    ],
)
def test_the_simulator_gets_the_same_settings(index, is_utilisation, smoothing_s):
    wanted = design("--cpus", "0.2", "--demand", "0.298")
    setup = with_settings(Setup(SCRIPTS), list(words_of(wanted, "GLOBAL", index)))
    given = wanted.parameters(Case("canonical", "GLOBAL", index, 0))
    assert (setup.index == "utilisation") is is_utilisation
    assert setup.smoothing_s == pytest.approx(smoothing_s)
    for name in OF_LIM:
        assert getattr(setup.lim, name.removeprefix("lim.")) == pytest.approx(given[name])
    assert setup.lim.change_threshold == pytest.approx(0.5)


def test_commands_are_those_installed_here():
    names = {"gcc", "bzip2", "sort"}
    found = commands.chosen((), lambda name: f"/bin/{name}" if name in names else None)
    assert [one.name for one in found] == ["compile", "compress", "sort"]
    assert found[0].words[0] == "/bin/gcc"
    with pytest.raises(
        LbdError, match="format needs one of these programs, none of which is installed"
    ):
        commands.chosen(("format",), lambda _: None)


def test_a_demand_becomes_a_size():
    command = commands.Command("x", True, ("x", "-n", "{n}", "file*"), 0.010, 0.002)
    assert command.units(0.001) == 1
    assert command.units(0.030) == 11
    assert command.argv(2) == ["x", "-n", "2", "file", "file"]
