"""`lbd sim target` against the contract."""

import json

import pytest

from lbd.cli import main as lbd

RESULT_KEYS = {
    "policy", "mean_s", "variance", "drain_mean_s", "drain_variance", "mean_slots", "peak_slots",
    "changes",
}  # fmt: skip
QUICK = ["--tasks", "12", "--slots", "3", "--replications", "30", "--workers", "1"]


def sim(*words):
    return lbd.main(["sim", "target", *words])


def answer(capsys, *words):
    assert sim(*QUICK, *words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_both_policies(capsys):
    found = answer(capsys)
    assert found["schema"] == 1
    assert found["target_s"] == pytest.approx(3 + 11 / 6)
    assert [one["policy"] for one in found["results"]] == ["SAA", "DAA"]
    assert all(one.keys() >= RESULT_KEYS for one in found["results"])
    assert sim(*QUICK) == 0
    out = capsys.readouterr().out
    assert "12 tasks (exponential), 3 slots, target 4.83333, seed 1, 30 replications" in out
    assert "\nSAA " in out


def test_only_the_seed_decides_the_result_not_the_number_of_processes(capsys):
    one = answer(capsys, "--policy", "daa", "--learn")
    again = answer(capsys, "--policy", "DAA", "--learn", "--workers", "2")
    assert one == again
    assert one != answer(capsys, "--policy", "DAA", "--learn", "--seed", "2")


def test_sizes(capsys, tmp_path):
    assert answer(capsys, "--size", "deterministic")["target_s"] == 4.0
    assert answer(capsys, "--size", "pareto:3", "--target", "9")["target_s"] == 9.0
    file = tmp_path / "sizes"
    file.write_text("# seconds\n30\n90\n\n")
    found = answer(capsys, "--size", str(file), "--policy", "SAA")
    assert 3.0 < found["target_s"] < 6.0
    assert len(found["results"]) == 1


def test_two_arrays_slow_slots_and_losses(capsys):
    words = ["--arrays", "2", "--cluster", "5", "--speeds", "1,0.5", "--loss-rate", "0.2"]
    found = answer(capsys, *words, "--policy", "DAA")
    assert found["results"][0]["mean_s"] > found["target_s"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "0"], "above 0"),
        (["--target", "-3"], "above 0"),
        (["--size", "pareto:1"], "no mean"),
        (["--size", "pareto:x"], "--size pareto:x: 'x' is not a number"),
        (["--size", "pareto:nan"], "'nan' is not a number"),
        (["--size", "exponentail"], "exponentail"),
        (["--size", "/dev/null"], "no sizes"),
        (["--policy", "DA"], "DAA"),
        (["--tasks", "0"], "1 to"),
        (["--slots", "0"], "1 to"),
        (["--speeds", "1,0"], "above 0"),
        (["--loss-rate", "-1"], "0 or more"),
        (["--arrays", "2"], "--cluster"),
        (["--tasks", "100000", "--replications", "1000000"], "more than"),
    ],
)
def test_bad_input_is_one_line(capsys, words, said):
    assert sim(*words) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
