"""`lbd sim dispatch` against the contract."""

import json

import pytest

from lbd.cli import main as lbd
from lbd.config.dispatch import MODES

QUICK = ["--jobs", "3000", "--max", "1e6", "--alpha", "1.3"]
KEYS = {"jobs", "skipped", "hosts", "load", "results", "schema"}
RESULT_KEYS = {
    "mode", "cutoffs", "mean_waiting_s", "mean_response_s", "mean_slowdown", "p99_slowdown",
    "ci95_slowdown", "max_waiting_s", "utilisation", "wasted_s",
}  # fmt: skip


def sim(*words):
    return lbd.main(["sim", "dispatch", *words])


def answer(capsys, *words):
    assert sim(*words, "--json") == 0
    out, err = capsys.readouterr()
    return json.loads(out), err


def test_all_modes_in_one_table(capsys):
    found, err = answer(capsys, *QUICK, "--load", "0.4", "--hosts", "3")
    assert err == ""
    assert found.keys() >= KEYS
    assert [found[key] for key in ("schema", "jobs", "skipped", "hosts", "load")] == [
        1, 3000, 0, 3, 0.4,
    ]  # fmt: skip
    assert [one["mode"] for one in found["results"]] == list(MODES)
    for one in found["results"]:
        assert one.keys() >= RESULT_KEYS
        assert len(one["utilisation"]) == 3
        tiered = one["mode"] in ("tags", "sita-e")
        assert (one["cutoffs"] is not None) == tiered
        if tiered:
            assert len(one["cutoffs"]) == 2
        assert (one["wasted_s"] > 0) == (one["mode"] == "tags")
        assert one["max_waiting_s"] >= one["mean_waiting_s"] >= 0
        assert one["ci95_slowdown"] > 0
    by_mode = {one["mode"]: one for one in found["results"]}
    assert by_mode["fcfs"]["mean_slowdown"] == pytest.approx(by_mode["least-work"]["mean_slowdown"])
    sizes = {round(one["mean_response_s"] - one["mean_waiting_s"], 3) for one in by_mode.values()}
    assert len(sizes) == 1  # response is waiting plus size, in every mode
    assert sim(*QUICK, "--load", "0.4", "--hosts", "3") == 0
    out = capsys.readouterr().out
    assert out.startswith("3000 jobs on 3 hosts at load 0.4, seed 1, 95 % intervals by 20 batch")
    assert all(f"\n{mode} " in out for mode in MODES)


def test_the_seed_decides_everything(capsys):
    words = [*QUICK, "--mode", "random", "--replications", "3"]
    first, again = answer(capsys, *words), answer(capsys, *words)
    assert first == again
    assert first[0]["ci95_by"] == "3 replications"
    assert answer(capsys, *words, "--seed", "2") != first


def test_given_cutoffs_are_taken(capsys):
    words = ["--mode", "tags", "--cutoffs", "5000,1e5", "--hosts", "3", "--load", "0.3"]
    found, _ = answer(capsys, *QUICK, *words)
    assert [one["cutoffs"] for one in found["results"]] == [[5000.0, 100000.0]]


def test_idle_hosts_may_help_lower_tiers(capsys):
    words = [*QUICK, "--mode", "tags", "--hosts", "3", "--load", "0.4"]
    plain, _ = answer(capsys, *words)
    helped, _ = answer(capsys, *words, "--work-conserving")
    assert helped["results"][0]["cutoffs"] == plain["results"][0]["cutoffs"]
    assert helped["results"][0]["mean_waiting_s"] < plain["results"][0]["mean_waiting_s"]


def test_objectives_differ(capsys):
    seen = set()
    for objective in ("slowdown", "waiting", "fairness"):
        found, _ = answer(capsys, *QUICK, "--mode", "tags", "--objective", objective)
        seen.add(tuple(found["results"][0]["cutoffs"]))
    assert len(seen) == 3


def write(path, jobs):
    text = "".join(
        f"{i} {at} 0 {size} 1 -1 -1 1 {2 * size}" + " -1" * 9 + "\n"
        for i, (at, size) in enumerate(jobs)
    )
    path.write_text("; a trace\n" + text)
    return str(path)


def test_a_trace_as_recorded_and_stretched(capsys, tmp_path):
    path = write(tmp_path / "t.swf", [(100, 10), (110, 20), (120, -1), (130, 0), (140, 30)])
    words = ["--trace", path, "--mode", "fcfs", "--hosts", "1"]
    found, err = answer(capsys, *words)
    assert (found["jobs"], found["skipped"], found["load"]) == (3, 2, 1.5)
    assert "the hosts cannot keep up" in err
    (one,) = found["results"]
    assert one["mean_waiting_s"] == pytest.approx(0.0)
    assert one["ci95_slowdown"] is None  # three jobs are no sample
    found, err = answer(capsys, *words, "--scale-load", "3")
    assert found["load"] == pytest.approx(3.0)
    assert found["results"][0]["mean_waiting_s"] == pytest.approx((0 + 5 + 10) / 3)
    found, _ = answer(capsys, *words, "--limit", "2")
    assert (found["jobs"], found["skipped"]) == (2, 0)


def test_the_estimates_of_users_replace_the_sizes(capsys, tmp_path):
    jobs = [(5 * i, 1 + i * 37 % 50) for i in range(200)]
    path = write(tmp_path / "t.swf", jobs)
    words = ["--trace", path, "--mode", "sita-e", "--hosts", "2", "--scale-load", "0.5"]
    exact, _ = answer(capsys, *words)
    by_user, _ = answer(capsys, *words, "--estimates", "user")
    assert exact["results"][0]["cutoffs"] == by_user["results"][0]["cutoffs"]
    assert exact["results"] != by_user["results"]


def test_if_any_cutoffs_overload_a_host_all_cutoffs_are_equally_bad(capsys):
    words = ["--alpha", "1.9", "--load", "0.6", "--hosts", "4", "--jobs", "3000", "--mode", "tags"]
    found, err = answer(capsys, *words)
    assert err.startswith("lbd sim dispatch: tags: at load 0.6 one of 4 hosts is overloaded")
    assert "(not so below 0.4873)" in err
    assert found["warnings"] == [err.split(": ", 1)[1].strip()]
    assert len(found["results"][0]["cutoffs"]) == 3
    assert min(found["results"][0]["utilisation"]) > 0.6


def test_modes_that_cannot_have_tiers_are_left_out_of_the_table(capsys):
    found, err = answer(capsys, *QUICK, "--hosts", "1")
    assert [one["mode"] for one in found["results"]] == [
        m for m in MODES if m not in ("tags", "sita-e")
    ]
    assert [one["mode"] for one in found["left_out"]] == ["tags", "sita-e"]
    assert err.startswith("lbd sim dispatch: without tags: tags needs at least two tiers")


def test_the_number_of_hosts_is_that_of_the_machine_of_a_real_trace(capsys):
    found, err = answer(capsys, "--hosts", "1030", "--jobs", "20", "--mode", "fcfs")
    assert (found["hosts"], err) == (1030, "")


def test_cutoffs_are_solved_for_the_sizes_of_a_trace_or_for_the_fitted_distribution(
    capsys, tmp_path
):
    jobs = [(100 * i, 1 + (i * 37 % 50) ** 2) for i in range(400)]
    words = ["--trace", write(tmp_path / "t.swf", jobs), "--mode", "tags", "--scale-load", "0.4"]
    measured, _ = answer(capsys, *words)
    fitted, _ = answer(capsys, *words, "--fitted")
    (one,), (other,) = measured["results"], fitted["results"]
    assert one["cutoffs"] != other["cutoffs"]
    assert max(one["utilisation"]) < 0.9


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--mode", "fifo"], 2, "'fifo' is no mode"),
        (["--mode", "tags", "--hosts", "1"], 1, "at least two tiers"),
        (["--mode", "sita-e", "--hosts", "1"], 1, "at least two tiers"),
        (["--mode", "tags", "--cutoffs", "5,4"], 2, "must increase"),
        (["--mode", "tags", "--cutoffs", "5,x"], 2, "not a number"),
        (["--mode", "tags", "--cutoffs", "0"], 2, "above 0"),
        (["--cutoffs", "5,6"], 2, "2 tiers, with 1 cutoffs between, not 2"),
        (["--mode", "fcfs", "--cutoffs", "5"], 2, "for tags only"),
        (["--mode", "fcfs", "--work-conserving"], 2, "for tags only"),
        (["--mode", "sita-e", "--hosts", "65"], 1, "at most 64 tiers"),
        (["--mode", "tags", "--hosts", "65"], 1, "at most 64 tiers"),
        (["--load", "1"], 2, "below 1"),
        (["--load", "-1"], 2, "above 0"),
        (["--alpha", "0.001"], 2, "too small"),
        (["--hosts", "0"], 2, "not a whole number"),
        (["--hosts", "2000000"], 2, "allowed 1 to 1000000"),
        (["--jobs", "1e3"], 2, "not a whole number"),
        (["--jobs", "5000001"], 2, "allowed 1 to 5000000"),
        (["--limit", "5"], 2, "goes with --trace"),
        (["--scale-load", "0.5"], 2, "goes with --trace"),
        (["--trace", "/nowhere.swf"], 2, "No such file"),
        (["--trace", "/"], 2, "Is a directory"),
        (["--trace", "/nowhere.swf", "--alpha", "1"], 2, "exclude each other"),
        (["--seed", "x"], 2, "--seed"),
        (["--objective", "x"], 2, "fairness"),
    ],
)
def test_bad_input_is_one_clear_line(complaint, words, code, said):
    assert sim(*words) == code
    err = complaint()
    assert err.startswith("lbd sim")
    assert said in err


def test_a_broken_trace_says_where(capsys, tmp_path):
    path = write(tmp_path / "t.swf", [(0, 5), (1, 6)])
    with open(path, "a") as file:
        file.write("1 2 3\n")
    assert sim("--trace", path, "--mode", "fcfs") == 2
    said = f"lbd sim: {path}:4: 3 fields instead of 18; use --skip-broken to skip such lines\n"
    assert capsys.readouterr() == ("", said)
    found, err = answer(capsys, "--trace", path, "--mode", "fcfs", "--skip-broken")
    assert (found["jobs"], found["broken"]) == (2, 1)
    assert err.startswith(f"lbd sim dispatch: {path}:4: 3 fields")
