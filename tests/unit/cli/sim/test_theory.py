"""`lbd sim speedup` and `lbd sim queue-time`, as a user runs them."""

import json
from math import exp, log

import pytest

from lbd.cli.main import main

QUEUE = ["sim", "queue-time", "--running", "100:8,2000:8,30:2", "--lifetimes", "7.389:162754"]
SPEEDUP = ["sim", "speedup", "--parallelism", "64", "--variance", "0.5", "--slots"]


def reply(capsys, argv):
    assert main([*argv, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.pop("schema") == 1
    return found


def test_speedup(capsys):
    values = reply(capsys, [*SPEEDUP, "1,64,126-128"])["values"]
    assert [row["slots"] for row in values] == [1, 64, 126, 127, 128]
    assert values[0]["speedup"] == 1
    assert values[1]["speedup"] == pytest.approx(64 * 64 / (64 + 0.5 * 63 / 2), rel=1e-12)
    assert values[3]["speedup"] == values[4]["speedup"] == 64
    assert main([*SPEEDUP, "1-9:4"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][1:] == ["1", "5", "9"]


def test_queue_time(capsys):
    found = reply(capsys, [*QUEUE, "--need", "8"])
    assert found["benefactors"] == 2
    assert found["combined_s"] == found["median_s"]
    left = [log(162754 / (age + found["median_s"])) / log(162754 / age) for age in (100, 2000)]
    assert left[0] * left[1] == pytest.approx(0.5, abs=1e-8)
    # 2 slots do not help
    assert found["median_exact_s"] == pytest.approx(found["median_s"], rel=1e-6)
    assert main([*QUEUE, "--need", "8"]) == 0
    assert "benefactors: 2;" in capsys.readouterr().out


def test_without_a_benefactor(capsys):
    found = reply(capsys, [*QUEUE, "--need", "12"])
    assert (found["benefactors"], found["median_s"]) == (0, None)
    assert found["combined_s"] == found["mean_s"] > found["median_exact_s"] / 2 > exp(1)
    assert main([*QUEUE, "--need", "12"]) == 0
    assert "predictor A" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([*SPEEDUP, "8-4"], "8-4: a range must increase"),
        ([*SPEEDUP, "0"], "'0' is not a whole number above 0"),
        ([*SPEEDUP, "1-100000"], "more than 10000 values"),
        ([*SPEEDUP, "1", "--variance", "-1"], "-1: must be 0 or more"),
        ([*SPEEDUP, "1", "--parallelism", "0.5"], "average parallelism 0.5: must be 1 or more"),
        ([*QUEUE, "--need", "19"], "--need 19: all that run hold 18"),
        ([*QUEUE, "--need", "8", "--lifetimes", "9:3"], "must be 0 < shortest < longest"),
        ([*QUEUE, "--need", "8", "--lifetimes", "9"], "must be MIN:MAX"),
        ([*QUEUE, "--need", "8", "--running", "9"], "must be AGE:SLOTS"),
        ([*QUEUE, "--need", "8", "--running", "9:1000000"], "more than 100000 slots"),
        ([*QUEUE, "--need", "8", "--running", "5:1,-9:1"], "-9: must be 0 or more"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(complaint, argv, said):
    assert main(argv) == 2
    assert said in complaint()
