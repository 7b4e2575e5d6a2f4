"""`lbctl tags` against the contract."""

import gzip
import json
from random import Random

import pytest

from lbd.cli import lbctl
from lbd.theory.bounded_pareto import BoundedPareto

PAPER = ["--alpha", "1", "--mean", "3000", "--max", "1e10"]
SOLVE = ["tags", "solve", *PAPER, "--load", "0.5", "--hosts", "2"]


def answer(capsys, *words):
    code = lbctl.main([*words, "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("objective", ["slowdown", "waiting", "fairness"])
def test_solve_prints_what_the_contract_says(capsys, objective):
    code, found = answer(capsys, *SOLVE, "--objective", objective)
    assert (code, found["schema"], found["feasible"]) == (0, 1, True)
    assert found["k"] == pytest.approx(167.555, rel=1e-5)
    assert len(found["cutoffs"]) == 1
    assert len(found["loads"]) == 2
    assert sum(found["loads"]) == pytest.approx(1.0 + found["excess"])
    assert found["mean_response_s"] > found["mean_waiting_s"] + 3000
    assert set(found["compare"]) == {"random", "least_work", "sita_e"}
    for means in found["compare"].values():
        assert set(means) == {"mean_slowdown", "mean_waiting_s"}
    assert found["compare"]["least_work"]["mean_slowdown"] > found["mean_slowdown"]


def test_if_no_cutoffs_exist_that_is_said(capsys, complaint):
    words = [*SOLVE[:2], "--alpha", "1.9", *SOLVE[4:8], "--load", "0.5", "--hosts", "4"]
    code, found = answer(capsys, *words)
    assert (code, found["feasible"]) == (1, False)
    assert 0.25 < found["max_load"] < 0.5
    assert lbctl.main(words) == 1
    err = complaint()
    assert err.startswith("lbctl tags solve: no cutoffs: at load 0.5, one of 4 hosts")
    assert "0.4873" in err


def test_a_load_above_one_is_treated_the_same_way(capsys):
    code, found = answer(capsys, *SOLVE[:-4], "--load", "1.5", "--hosts", "2")
    assert (code, found["feasible"]) == (1, False)


def test_solve_for_people(capsys):
    assert lbctl.main(SOLVE) == 0
    out = capsys.readouterr().out
    assert out.startswith("2 hosts at load 0.5; jobs of 167.6 to 1e+10 s, mean 3000 s, alpha 1")
    for word in ("TIER", "CUTOFF", "tags", "random", "least_work", "sita_e", "repeated work"):
        assert word in out


def trace(path, sizes, head=b""):
    lines = [b"; comment\n", b"\n", head]
    for number, size in enumerate(sizes):
        lines.append(b"%d %d 0 %.6f 1" % (number, 10 * number, size) + b" -1" * 13 + b"\n")
    path.write_bytes(gzip.compress(b"".join(lines)) if path.suffix == ".gz" else b"".join(lines))
    return str(path)


@pytest.mark.parametrize("name", ["jobs.swf", "jobs.swf.gz"])
def test_fit_prints_what_the_contract_says(capsys, tmp_path, name):
    sizes, rng = BoundedPareto(2.0, 2e6, 1.1), Random(3)
    drawn = [sizes.sample(rng) for _ in range(4000)]
    path = trace(tmp_path / name, [*drawn, 0, -1])
    code, found = answer(capsys, "tags", "fit", "--trace", path)
    assert (code, found["schema"], found["jobs"], found["skipped"]) == (0, 1, 4000, 2)
    assert found["alpha"] == pytest.approx(1.1, abs=0.05)
    assert found["k"] == pytest.approx(2.0, rel=0.01)
    assert found["p"] == pytest.approx(max(drawn), rel=1e-6)
    assert found["arrival_rate_per_s"] == pytest.approx(0.1)
    assert found["ks_distance"] < 0.03
    assert lbctl.main(["tags", "fit", "--trace", path]) == 0
    assert "Kolmogorov-Smirnov distance" in capsys.readouterr().out


def test_a_broken_line_stops_it_or_is_skipped(capsys, tmp_path):
    path = trace(tmp_path / "t.swf", [1.0, 5.0, 9.0], head=b"1 2 three\n")
    assert lbctl.main(["tags", "fit", "--trace", path]) == 2
    out, err = capsys.readouterr()
    said = f"lbctl: {path}:3: 3 fields instead of 18; use --skip-broken to skip such lines\n"
    assert (out, err) == ("", said)
    code = lbctl.main(["tags", "fit", "--trace", path, "--skip-broken", "--json"])
    out, err = capsys.readouterr()
    assert (code, json.loads(out)["broken"], json.loads(out)["jobs"]) == (0, 1, 3)
    assert err == f"lbctl tags fit: {path}:3: 3 fields instead of 18; skipped\n"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no job with a positive run time (0 without)"),
        (b"\x1f\x8b\x08garbage", "damaged gzip file"),
        (gzip.compress(b"; x\n" * 999, mtime=0)[:-9], "damaged gzip file"),
        (b"1 0 0 5" + b" -1" * 14 + b"\n", "at least two jobs"),
        (b"\x00" * 100_000, "longer than 4096 bytes"),
        (b"1 0 0 nan" + b" -1" * 14 + b"\n", "field 4 is no number: 'nan'"),
        (b"1 -1 0 5" + b" -1" * 14 + b"\n", "no submit time"),
    ],
)
def test_files_that_are_no_traces_are_refused(complaint, tmp_path, content, said):
    path = tmp_path / "t.swf"
    path.write_bytes(content)
    assert lbctl.main(["tags", "fit", "--trace", str(path)]) == 2
    err = complaint()
    assert err.startswith(f"lbctl: {path}")
    assert said in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--trace", "/nowhere"], "No such file"),
        (["fit", "--trace", "/"], "directory"),
        (["frobnicate"], "solve"),
        ([], "COMMAND"),
        (["solve", *PAPER, "--load", "0.5", "--hosts", "1"], "must be 2 to 64"),
        (["solve", *PAPER, "--load", "0.5", "--hosts", "x"], "not a whole number"),
        (["solve", *PAPER, "--load", "0", "--hosts", "2"], "above 0"),
        (["solve", *PAPER, "--load", "inf", "--hosts", "2"], "not a number"),
        (["solve", "--alpha", "1", "--mean", "9", "--max", "8", "--load", ".5", "--hosts", "2"],
         "0 < mean < largest"),
        (["solve", "--alpha", ".001", "--mean", "3e3", "--max", "1e10", "--load", ".5",
          "--hosts", "2"], "too small"),
        (["solve", *PAPER, "--load", ".5", "--hosts", "2", "--objective", "x"], "fairness"),
    ],
)  # fmt: skip
def test_bad_input_is_one_clear_line(complaint, words, said):
    assert lbctl.main(["tags", *words]) == 2
    err = complaint()
    assert err.startswith("lbctl")
    assert said in err


@pytest.mark.parametrize("word", ["show", "fit"])
def test_a_question_to_the_queue_needs_a_daemon(complaint, tmp_path, word):
    config = tmp_path / "lbd.toml"
    config.write_text(f'[host]\nname = "h1"\nruntime_dir = "{tmp_path}"\n')
    assert lbctl.main(["tags", word, "--config", str(config)]) == 1
    assert "not running" in complaint()
