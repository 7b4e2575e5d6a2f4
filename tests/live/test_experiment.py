"""`lbd lab experiment`, seconds of it: interrupted, resumed, and its report."""

import json
import re
import signal
import subprocess

import pytest
from contract import assert_one_line

from tests.live.cluster import client_environment, lab_command, run_lab, wait_until
from tests.live.conftest import need_namespaces

SMALL = (
    "experiment", "--hosts", "2", "--cpus", "0.4", "--load", "skewed", "--algorithm", "LOWEST",
    "--users", "2", "--demand", "0.02", "--duration", "1s", "--seed", "3",
    "--commands", "awk,sort",
)  # fmt: skip
RESULT = {
    "load", "algorithm", "index", "jobs", "failed", "mean_s", "mean_ci95_s", "sd_s", "reduction",
    "reduction_ci95", "sd_reduction", "moved", "moved_of_eligible", "wrong", "lim_cores",
    "lbm_cores", "lim_bytes_s", "lbm_bytes_s", "messages_s", "by_command", "by_level",
}  # fmt: skip


@pytest.mark.root
def test_an_interrupted_experiment_resumes_where_it_stopped(short_dir):
    need_namespaces()
    out, place = short_dir / "out", short_dir / "lab"
    words = [*SMALL, "--out", out, "--dir", place, "--json"]
    with subprocess.Popen(
        lab_command(*words), env=client_environment(), stdin=subprocess.DEVNULL, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as first:  # fmt: skip
        wait_until(lambda: [*out.glob("runs/*.json")], "the first run's outcome", 60)
        first.send_signal(signal.SIGTERM)
        said = first.communicate(timeout=60)[1]
    assert first.returncode == 128 + signal.SIGTERM
    assert not place.exists()  # a lab leaves no trace
    (done,) = out.glob("runs/*.json")
    before = done.read_bytes()

    result = run_lab(*words, timeout=120)
    assert "1 of 2 runs are done" in result.stderr
    assert done.read_bytes() == before
    found = json.loads(result.stdout)
    assert found["line"] in said  # printed before anything was done
    assert (found["schema"], found["seed"], found["hosts"]) == (1, 3, 2)
    nolb, lowest = found["results"]
    assert nolb.keys() >= RESULT
    assert (nolb["algorithm"], nolb["moved"], nolb["reduction"]) == ("NOLB", 0.0, 0.0)
    assert (lowest["algorithm"], lowest["index"]) == ("LOWEST", "smoothed/4")
    assert lowest["jobs"] == nolb["jobs"] > 0
    assert (lowest["failed"], nolb["failed"]) == (0, 0)
    assert {row["command"] for row in lowest["by_command"]} <= {"awk", "sort"}
    assert [row["level"] for row in lowest["by_level"]] == ["heavy", "idle"]
    assert lowest["lim_cores"] > 0
    saved, interval = lowest["simulated"]  # nothing: in one second no load is ever reported
    assert abs(saved) <= interval + 0.05

    page = (out / "report.html").read_text()
    assert found["line"].replace("--out", "") in page.replace("--out", "")
    assert not re.search(r'(src|href)="(?!#)', page.replace('xlink:href="#', ""))
    assert not (out / "work").exists()
    again = run_lab(*words, timeout=120)  # nothing is left to do
    assert json.loads(again.stdout) == found
    assert not place.exists()


@pytest.mark.root
def test_an_experiment_of_another_design_is_left_alone(short_dir):
    need_namespaces()
    out = short_dir / "out"
    out.mkdir()
    (out / "experiment.json").write_text("{")
    result = run_lab(*SMALL, "--out", out, check=False)
    assert result.returncode == 1
    assert_one_line(result.stderr, "lbd lab", "cannot be read", "another --out")
