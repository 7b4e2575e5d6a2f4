import json

from lbd.cli.main import main
from lbd.cli.sim import faults as sim_faults
from lbd.config.schema import ALGORITHMS
from lbd.sim.faults.ledger import Ledger
from lbd.sim.faults.scenarios import SCENARIOS
from lbd.sim.faults.schedule import FaultRun

ONE = ["sim", "faults", "--algorithm", "lowest", "--hosts", "3", "--seeds", "2", "--workers", "1"]


def test_a_line_for_each_algorithm(capsys):
    assert main(ONE) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "algorithm"
    assert line.split()[:2] == ["LOWEST", "2"]
    assert line.split()[-1] == "0"


def test_the_numbers_follow_from_the_seed(capsys):
    found = []
    for _ in range(2):
        assert main([*ONE, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    first, second = found[0]["runs"]
    assert (first["algorithm"], first["seed"], second["seed"]) == ("LOWEST", 1, 2)
    assert first["violation"] == ""
    assert first["commands"] > 20


class Violating(FaultRun):
    def converge(self):
        raise AssertionError(f"{self.where}: h1 went back")


def test_a_violation_names_its_seed(capsys, monkeypatch):
    monkeypatch.setattr(sim_faults, "FaultRun", Violating)
    assert main([*ONE, "--seed", "7"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "LOWEST, --seed 7: LOWEST, seed 7: h1 went back"


SCENARIO = ["sim", "faults", "--scenario", "disk-full", "--seeds", "2", "--workers", "1"]


def test_a_line_for_each_scenario(capsys):
    assert main(SCENARIO) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split()[0] == "scenario"
    assert line.split()[:2] == ["disk-full", "2"]
    assert line.split()[-1] == "0"


def test_a_broken_promise_names_scenario_seed_and_the_last_events(capsys, monkeypatch):
    monkeypatch.setattr(Ledger, "last_attempt", lambda self, row: None)
    again = ["sim", "faults", "--scenario", "dispatcher", "--workers", "1", "--seeds"]
    assert main([*again, "10"]) == 1
    first = next(line for line in capsys.readouterr().out.splitlines() if "--seed " in line)
    said, seed = first.split(": ", 1), first.split("--seed ")[1].split(":")[0]
    assert said[0] == f"--scenario dispatcher --seed {seed}"
    assert main([*again, "1", "--seed", seed]) == 1
    shown = capsys.readouterr().out
    assert first in shown
    assert "what happened last:" in shown


def test_everything_is_chosen_unless_something_is_named():
    names = lambda *words: sim_faults.chosen(sim_faults.parsed(list(words)))  # noqa: E731
    algorithms, scenarios = names()
    assert (algorithms, scenarios) == ((*ALGORITHMS, sim_faults.SIGNED), tuple(SCENARIOS))
    assert names("--scenario", "calm") == ((), ("calm",))
    assert names("--algorithm", "random") == (("RANDOM",), ())
    assert names("--algorithm", "all") == (algorithms, ())
    assert names("--algorithm", "signed") == ((sim_faults.SIGNED,), ())
    assert names("--scenario", "all") == ((), scenarios)
