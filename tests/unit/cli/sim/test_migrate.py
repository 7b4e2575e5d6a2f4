"""`lbd sim migrate` against the contract."""

import io
import json
import tarfile
from random import Random

import pytest

from lbd.cli import main as lbd
from lbd.theory.wait_or_migrate import OnOff, thresholds

CHAIN = ["--p01", "0.1", "--p11", "0.9"]
FIGURE_2 = ["--hosts", "3", *CHAIN, "--beta", "0.9"]
KEYS = {
    "schema", "thresholds", "myopic", "processing", "migrations", "wait_below", "results",
    "optimal_cost",
}  # fmt: skip


def sim(*words):
    return lbd.main(["sim", "migrate", *words])


def answer(capsys, *words):
    assert sim(*words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_without_a_cost_it_equals_the_theory(capsys):
    found = answer(capsys, *FIGURE_2)
    assert found.keys() >= KEYS
    assert found["thresholds"] == pytest.approx(thresholds(3, OnOff(0.1, 0.9), 0.9))
    assert found["myopic"] == pytest.approx([1 / 3, 1 / 2, 1])
    assert found["processing"][0] == pytest.approx(10.0)
    assert found["migrations"] == pytest.approx([2.7, 2.67807, 2.09223, 0.0], abs=1e-5)
    assert (found["wait_below"], found["results"], found["optimal_cost"]) == (None, [], None)
    assert sim(*FIGURE_2) == 0
    assert "1.643741" in capsys.readouterr().out


def test_with_a_cost_and_enough_hosts(capsys):
    found = answer(capsys, *FIGURE_2, "--cost", "2", "--steps", "4000")
    assert found["wait_below"] == 2
    by_name = {one["policy"]: one["cost_per_step"] for one in found["results"]}
    assert list(by_name) == ["threshold", "myopic", "always", "never", "optimal"]
    assert by_name["threshold"] == by_name["optimal"] < by_name["myopic"] == by_name["never"]
    few = answer(capsys, *FIGURE_2, "--cost", "2", "--spare-hosts", "60", "--steps", "10")
    assert found["optimal_cost"] == pytest.approx(few["optimal_cost"], rel=1e-6)
    assert sim(*FIGURE_2, "--cost", "2", "--steps", "100") == 0
    assert "wait while fewer than 2 hosts are free" in capsys.readouterr().out


def test_with_spare_hosts(capsys):
    words = ["--hosts", "2", *CHAIN, "--cost", "2", "--spare-hosts", "4", "--steps", "4000"]
    found = answer(capsys, *words)
    assert found["optimal_cost"] == pytest.approx(452.8525, abs=1e-3)
    assert found == answer(capsys, *words)
    assert found != answer(capsys, *words, "--seed", "2")
    large = answer(capsys, *words[:-3], "900", "--hosts", "9", "--steps", "5")
    assert large["optimal_cost"] is None
    assert "optimal" not in [one["policy"] for one in large["results"]]


def test_series(capsys, tmp_path):
    rng, file = Random(1), tmp_path / "series.tar.xz"
    with tarfile.open(file, "w:xz") as archive:
        for number in range(8):
            text = "".join(f"{rng.choice((3, 40))}\n" for _ in range(288)).encode()
            entry = tarfile.TarInfo(f"day/h{number}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    words = ["--series", str(file), "--hosts", "1", "--spare-hosts", "3", "--cost", "0.5"]
    found = answer(capsys, *words, "--sets", "3")
    assert found["series"] == 8
    by_name = {one["policy"]: one["cost_per_step"] for one in found["results"]}
    assert by_name.keys() >= {"threshold", "always", "never", "stays", "timer-1", "work"}
    assert by_name["threshold"] < by_name["never"]
    finer = answer(capsys, *words, "--sets", "1", "--value-steps", "5", "--timers", "1,5,15")
    by_minutes = {one["policy"]: one for one in finer["results"]}
    assert [name for name in by_minutes if "timer" in name] == ["timer-1", "timer-5", "timer-15"]
    # Where owners stay for at least five minutes, a timer of one minute is always in vain, and
    # costs that minute.
    moved = [by_minutes[name]["moved"] for name in ("always", "timer-1")]
    assert moved[1] == pytest.approx(moved[0], rel=0.2)
    assert by_minutes["timer-1"]["waited"] > by_minutes["always"]["waited"]
    assert sim(*words, "--sets", "1") == 0
    assert "1 draws of 4 hosts from 8 series" in capsys.readouterr().out
    assert sim(*words[:-5], "2", "--spare-hosts", "7", "--cost", "1") == 2
    assert "8 lively series for 9 hosts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "3", "--p01", "1.5", "--p11", "0.9"], "p01 = 1.5: must be 0 to 1"),
        (["--hosts", "3", "--p01", "0.1", "--p11", "-0.9"], "p11 = -0.9: must be 0 to 1"),
        (["--hosts", "3", "--p01", "x", "--p11", "0.9"], "not a number"),
        (["--hosts", "3"], "--p01 and --p11"),
        (["--hosts", "0", *CHAIN], "1 to"),
        (["--hosts", "3", *CHAIN, "--beta", "1"], "between 0 and 1"),
        (["--hosts", "3", *CHAIN, "--beta", "0"], "between 0 and 1"),
        (["--hosts", "3", *CHAIN, "--cost", "-1"], "0 or more"),
        (["--hosts", "3", *CHAIN, "--cost", "1", "--steps", "100000000"], "more than"),
        (["--hosts", "3", "--timers", "5,x"], "'x' is not a whole number"),
        (["--hosts", "3", "--value-steps", "0"], "1 to 60"),
        (["--hosts", "1", "--series", "/dev/null"], "goes with"),
        (["--hosts", "1", "--series", "/dev/null", "--cost", "1", "--spare-hosts", "1"], "series"),
        (["--hosts", "1", "--series", "/no", "--cost", "1", "--spare-hosts", "1"], "No such file"),
    ],
)
def test_bad_input_is_one_line(capsys, words, said):
    assert sim(*words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
