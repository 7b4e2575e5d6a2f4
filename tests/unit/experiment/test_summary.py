"""Figures and intervals of runs made up for the purpose."""

import re
from dataclasses import replace
from random import Random

import pytest

from lbd.experiment import report, thesis
from lbd.experiment.design import Case
from lbd.experiment.meters import connections_of
from lbd.experiment.outcome import HostCost, Job, Outcome, as_json, from_json
from lbd.experiment.run import last_lines
from lbd.experiment.summary import present, rows
from lbd.lab.lab import ports_of
from tests.unit.experiment.test_design import design

HOSTS = [("h1", "H"), ("h2", "H"), ("h3", "M"), ("h4", "M"), ("h5", "L"), ("h6", "L")]
DESIGN = design("--algorithm", "GLOBAL,RANDOM", "--cpus", "0.25", "--replications", "2")


def outcome(algorithm, replication, factor, moves=0):
    """Makes forty commands per host; each takes about `factor` times as long as with NOLB."""
    rng, noise = Random(replication), Random(f"{algorithm} {replication}")
    jobs = [
        Job(host, 1, n + 1, "awk" if n % 2 else "sort", bool(n % 2), 0.1, 0.5 * n,
            rng.expovariate(1.0) * factor * noise.uniform(0.9, 1.1),
            "h6" if n % 2 and n < 2 * moves and host != "h6" else host, 0)
        for host, _ in HOSTS for n in range(40)
    ]  # fmt: skip
    costs = tuple(HostCost(host, level, 2.5, 0.2, 0.4, 2000, 6000, 40, 20, 1)
                  for host, level in HOSTS)  # fmt: skip
    case = Case("canonical", algorithm, "smoothed/4", replication)
    return Outcome(case, 1e9, 20.0, 0.3, tuple(jobs), costs)


RUNS = [
    outcome(name, n, factor, moves)
    for n in (0, 1)
    for name, factor, moves in (("NOLB", 1.0, 0), ("GLOBAL", 0.6, 5), ("RANDOM", 0.8, 10))
]


def test_reduction_and_its_interval():
    nolb, global_, random = rows(DESIGN, RUNS)
    assert (nolb.algorithm, nolb.reduction, nolb.reduction_ci95) == ("NOLB", 0.0, None)
    assert global_.reduction == pytest.approx(0.4, abs=0.02)
    assert 0.0 < global_.reduction_ci95 < 0.05  # the noise is a tenth, over 480 pairs
    assert abs(global_.reduction - 0.4) < global_.reduction_ci95
    assert random.reduction < global_.reduction
    assert global_.mean_ci95_s > 0.05  # demands differ far more than the ratio
    assert (global_.jobs, global_.failed) == (480, 0)


def test_shares_and_costs():
    _, global_, _ = rows(DESIGN, RUNS)
    assert global_.moved == pytest.approx(5 * 5 * 2 / 480)
    assert global_.moved_of_eligible == pytest.approx(2 * global_.moved)
    assert global_.wrong == pytest.approx(12 / 50)
    assert global_.lim_cores == pytest.approx(0.01)
    assert global_.lbm_cores == pytest.approx(0.02)
    assert (global_.lim_bytes_s, global_.lbm_bytes_s) == (100.0, 300.0)
    assert global_.by_level["H"][2] == pytest.approx(0.5)  # 2.5 s in 20 s of a quarter core
    assert set(global_.by_kind) == {"awk", "sort"}


def test_with_four_or_more_replications_the_interval_is_over_them():
    wanted = replace(DESIGN, replications=4, algorithms=("GLOBAL",))
    runs = [outcome(name, n, f) for n in range(4) for name, f in (("NOLB", 1.0), ("GLOBAL", 0.6))]
    _, found = rows(wanted, runs)
    assert 0.0 < found.reduction_ci95 < 0.05
    assert len(rows(wanted, runs[:-1])) == 1  # an incomplete one is not shown


def test_claims_are_only_about_the_canonical_load():
    found = {claim.text: claim.holds for claim in thesis.claims(rows(DESIGN, RUNS))}
    assert found["every algorithm improves on NOLB"]
    assert found["RANDOM gains least"]
    assert thesis.claims([replace(row, load="heavy") for row in rows(DESIGN, RUNS)]) == []


@pytest.mark.parametrize("why", [{"moved": 0.0}, {"reduction_ci95": None}])
def test_nothing_is_claimed_of_what_one_short_run_cannot_tell(why):
    """It held that every algorithm improves on NOLB where no command had been moved."""
    found = [replace(row, **why) for row in rows(DESIGN, RUNS)]
    assert thesis.claims(found) == []
    assert thesis.cannot_tell(found) == ", ".join(
        row.algorithm for row in found if row.algorithm != "NOLB"
    )
    assert thesis.cannot_tell(rows(DESIGN, RUNS)) == ""


def test_commands_present_add_up_to_all_response_times():
    run = RUNS[1]
    last_s = max(job.submitted_s + job.response_s for job in run.jobs)
    total = sum(sum(values) for values in present(run, 50).values()) * last_s / 50
    assert total == pytest.approx(sum(job.response_s for job in run.jobs))


def test_outcomes_survive_a_round_trip_to_disk():
    assert from_json(as_json(RUNS[0])) == RUNS[0]


def test_the_report_is_self_contained():
    made = report.Made("lbd lab experiment --set 'a.b=<c>'", "2 cores", "2026", 2, "awk (mawk)")
    page = report.html(DESIGN, made, rows(DESIGN, RUNS), ["<svg></svg>"])
    assert "&lt;c&gt;" in page
    assert not re.search(r"<script|<link|src=|href=|@import|url\(", page)
    assert page.count("<table>") == page.count("</table>") >= 4
    assert "38.9 %" in page  # as printed


def test_drawings_are_elements_of_the_page():
    pytest.importorskip("matplotlib", reason="the extra sim is not installed")
    from lbd.cli.lab.experiment_plot import drawings

    found = drawings(rows(DESIGN, RUNS), RUNS)
    assert len(found) == 3
    assert all(text.startswith("<svg") and text.rstrip().endswith("</svg>") for text in found)
    assert "GLOBAL" in found[0]
    assert found == drawings(rows(DESIGN, RUNS), RUNS)


def test_bytes_are_counted_by_the_ports_of_the_daemons():
    text = (
        "0 0 10.1.2.1:17901 10.1.2.2:40000 cubic rto:204 bytes_sent:100 bytes_acked:99 "
        "bytes_received:23\n"
        "0 0 10.1.2.1:41000 10.1.2.2:7902 cubic bytes_sent:7\n"
        "0 0 10.1.2.1:22 10.1.2.2:1234 cubic bytes_sent:7\n\n"
    )
    assert connections_of(text, ports_of(("lim.port=17901", "lim.min_gain=1"))) == {
        "10.1.2.1:17901 10.1.2.2:40000": ("lim", 123),
        "10.1.2.1:41000 10.1.2.2:7902": ("lbm", 7),
    }


@pytest.mark.parametrize(
    ("words", "said", "not_said"),
    [
        (("--commands", "awk,sort"), ("stay: sort.", "are queue lengths."), ("of a utilisation",)),
        (("--commands", "awk"), ("All of them may leave",), ("stay:",)),
        (("--index", "smoothed/4,utilisation/10"), ("of a utilisation Δ is 0.1",), ()),
    ],
)
def test_the_report_says_how_it_was_done_but_nothing_about_other_systems(words, said, not_said):
    made = report.Made("lbd lab experiment", "2 cores", "2026", 2, "awk (mawk)")
    text = "".join(report.how(design(*words), made))
    assert all(part in text for part in said)
    assert not any(part in text for part in not_said)


def test_a_run_whose_users_failed_says_why(tmp_path):
    (tmp_path / "h1.log").write_text("one\ntwo\nthree\n")
    assert last_lines(tmp_path / "h1.log") == "two / three"
    assert "No such file" in last_lines(tmp_path / "h2.log")
