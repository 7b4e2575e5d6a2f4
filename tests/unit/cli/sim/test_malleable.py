"""`lbd sim malleable`, as a user runs it."""

import json

import pytest

from lbd.cli.main import main

RUN = ["sim", "malleable", "--days", "1", "--slots", "32"]


def trace_of(tmp_path, *jobs):
    path = tmp_path / "t.swf"
    lines = [
        f"{n} {at} 0 {ran} {slots} -1 -1 {slots} -1 -1 1 7 1 2 1 1 -1 -1\n"
        for n, (at, ran, slots) in enumerate(jobs, 1)
    ]
    path.write_text("; a comment\n" + "".join(lines))
    return ["sim", "malleable", "--slots", "8", "--trace", str(path)]


def test_all_strategies(capsys):
    assert main([*RUN, "--json", "--replications", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    rows = {row["strategy"]: row for row in found["results"]}
    assert list(rows) == ["AVG", "OPT", "PRED", "BIAS", "HEUR"]
    assert found["jobs"] > 60
    assert rows["AVG"]["mean_saving_s"] == 0 == rows["AVG"]["rebels"]
    assert rows["AVG"]["losers"] is None  # there are no rebels
    assert rows["OPT"]["mean_saving_s"] > 0 == rows["OPT"]["losers"]
    wanted = {
        *("mean_turnaround_s", "mean_duration_s", "median_duration_s", "rebels", "losers"),
        *("mean_saving_s", "median_rebel_saving_s", "mean_rebel_saving_s", "utilisation"),
    }
    assert all(wanted <= row.keys() for row in rows.values())
    assert found["prediction"].keys() == {"slope", "intercept", "cc_raw", "cc_corrected"}


def test_one_strategy_and_no_prediction(capsys):
    assert main([*RUN, "--strategy", "heur", "--view", "system", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in found["results"]] == ["HEUR"]
    assert found["prediction"] is None
    assert found["view"] == "system"


def test_a_table_with_its_seed(capsys):
    assert main([*RUN, "--seed", "5"]) == 0
    out = capsys.readouterr().out
    assert "seed 5" in out
    assert "waits by prediction: slope" in out
    assert len(out.splitlines()) == 10


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--strategy", "PERD"], "'PERD' is no strategy"),
        (["--days", "1000000"], "allowed up to 2000000"),
        (["--slots", "1000000"], "allowed 1 to 100000"),
        (["--load", "0"], "must be above 0"),
        (["--load", "1e-9"], "not one job arrived"),
        (["--view", "mine"], "no --view 'mine'; allowed: application, system"),
        (["--limit", "5"], "--limit goes with --trace only"),
        (["--trace", "x"], "--trace and --days exclude each other"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(complaint, more, said):
    assert main([*RUN, *more]) == 2
    assert said in complaint()


def test_the_jobs_of_a_trace(capsys, tmp_path):
    """Two jobs a second, each of which is followed individually."""
    jobs = [(n // 2, 200 + 17 * n % 300, 1 + n % 8) for n in range(40)]
    run = trace_of(tmp_path, *jobs)
    assert main([*run, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["jobs"], found["days"], found["trace"]) == (40, None, run[-1])
    rows = {row["strategy"]: row for row in found["results"]}
    assert rows["OPT"]["mean_saving_s"] > 0 == rows["OPT"]["losers"]
    assert rows["AVG"]["mean_saving_s"] == 0
    assert main([*run, "--limit", "12", "--scale-load", "0.5", "--replications", "2"]) == 0
    assert "24 jobs on 8 slots at load 0.5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("jobs", "more", "said"),
    [
        ([(0, 5, 1), (0, 6, 2)], [], "came at once"),
        ([(0, 5, 1), (0, 6, 2)], ["--scale-load", "0.5"], "came at once"),
        ([(0, 5, 1), (9, 6, 2)], ["--scale-load", "101"], "allowed up to 100"),
        ([(0, 5, 1), (9, 6, "x")], [], ":3: field 5 is no number: 'x'; use --skip-broken"),
        ([(0, -1, 1)], [], "no job with a positive run time"),
        ([(0, 5, 1), (9, 6, 2)], ["--load", "0.5"], "--trace and --load exclude each other"),
    ],
)
def test_a_useless_trace_is_one_line_and_exit_2(complaint, tmp_path, jobs, more, said):
    assert main([*trace_of(tmp_path, *jobs), *more]) == 2
    assert said in complaint()
