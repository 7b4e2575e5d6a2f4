import json

from lbd.cli import sim_faults
from lbd.cli.main import main
from lbd.sim.fault_schedule import FaultRun

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
