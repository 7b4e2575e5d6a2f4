"""deploy/quickstart, the first thing a newcomer runs: a true table, and nothing left behind."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest
from cluster import wait_until

from lbd.lab import processes

ROOT = Path(__file__).resolve().parents[2]
CHUNKS = 8


@pytest.fixture
def quickstart(tmp_path, monkeypatch):
    """quickstart() starts it with its temporary directory where the test can see it."""
    if not (ROOT / ".venv").exists():
        pytest.skip("no .venv: run deploy/setup")
    # Unix sockets are below it, so its name must be short.
    scratch = Path(f"/tmp/lbd-q{os.getpid()}")
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setenv("CHUNKS", str(CHUNKS))
    started = []

    def start():
        process = subprocess.Popen(
            [ROOT / "deploy/quickstart"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, start_new_session=True,
        )  # fmt: skip
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdout.close()
    assert list(scratch.iterdir()) == []
    scratch.rmdir()


def lab_processes():
    marks = (processes.environment_of(pid).get(processes.MARK, "") for pid in processes.pids())
    return [mark for mark in marks if mark.startswith(f"/tmp/lbd-q{os.getpid()}/")]


def test_the_quick_start_tells_the_truth_and_cleans_up(quickstart):
    output, _ = quickstart().communicate(timeout=300)
    assert f"All {CHUNKS} results are identical" in output, output
    rows = dict(re.findall(r"^(h\d) +(\d+ +\d+ +\d+)$", output, re.MULTILINE))
    counts = [[int(cell) for cell in row.split()] for row in rows.values()]
    assert list(rows) == ["h1", "h2", "h3", "h4"]
    assert [sum(column) for column in zip(*counts, strict=True)] == [CHUNKS] * 3
    assert counts[0][:2] == [CHUNKS, CHUNKS]
    assert sum(row[2] > 0 for row in counts) > 1, output
    assert re.search(r"^elapsed( +[\d.]+ s){3}$", output, re.MULTILINE)
    assert lab_processes() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_cleans_up_too(quickstart, number):
    process = quickstart()
    wait_until(lab_processes, "its lab is up", timeout_s=60)
    # To the whole group, as a terminal would.
    os.killpg(process.pid, number)
    said, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert lab_processes() == []
    assert "interrupted; the lab" in said.splitlines()[-1]


def test_an_interrupted_chunk_shows_no_traceback(quickstart):
    process = quickstart()
    wait_until(chunks, "a chunk is being compressed", timeout_s=120)
    os.killpg(process.pid, signal.SIGINT)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT
    assert "Traceback" not in said
    assert said.endswith("interrupted; the lab and its files are removed\n")


def chunks():
    names = (f"/tmp/lbd-q{os.getpid()}/", "/pack.py")
    found = (processes.command_line(pid).decode(errors="replace") for pid in processes.pids())
    return [line for line in found if all(name in line for name in names) and "xargs" not in line]
