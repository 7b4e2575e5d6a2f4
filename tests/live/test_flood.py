"""Many commands at once: all succeed, and the daemons are afterwards as they were before."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.live.cluster import FAST

COMMANDS, CALLERS = 1000, 32
GROWTH_BYTES = 12 << 20


@pytest.fixture(scope="module")
def lab(lab):
    """A warm lab: every host has run commands of every other."""
    flood(lab, 100)
    return lab


def flood(lab, count, *options):
    """Starts `count` commands from CALLERS at once; returns how many failed."""
    script = f"seq {count} | xargs -P{CALLERS} -I{{}} lbrun {' '.join(options)} true"
    return lab.run("h1", "sh", "-c", script, timeout=240)


def descriptors(lab):
    found = {}
    for host, parts in lab.pids().items():
        for part, pid in parts.items():
            found[host, part] = len(os.listdir(f"/proc/{pid}/fd"))
    return found


def resident_bytes(lab):
    return {
        (host, part): int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        for host, parts in lab.pids().items()
        for part, pid in parts.items()
    }


def idle(lab):
    return all(
        row["slots"]["used"] == 0 and row["jobs"] == {"local": 0, "foreign": 0}
        for row in lab.ask("h1", "lim", "status")["hosts"]
    )


@pytest.mark.parametrize("options", [(), ("--remote",)])
def test_a_thousand_commands_from_32_callers(lab, options):
    lab.wait_until(lambda: idle(lab), "no job is counted any more", 20)
    before, memory = descriptors(lab), resident_bytes(lab)
    result = flood(lab, COMMANDS, *options)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stderr == ""
    lab.wait_until(lambda: idle(lab), "no job is counted any more", 20)
    lab.wait_until(
        lambda: all(count <= before[key] + 4 for key, count in descriptors(lab).items()),
        "no descriptor stays open",
        20,
        lambda: (before, descriptors(lab)),
    )
    grown = {key: size - memory[key] for key, size in resident_bytes(lab).items()}
    assert all(size < GROWTH_BYTES for size in grown.values()), grown


def test_a_slow_reader_holds_the_writer_and_the_memory_stays_bounded(lab):
    memory = resident_bytes(lab)
    reader, writer = os.pipe()
    with lab.popen("h1", "lbrun", "-H", "h2", "cat", "/dev/zero", stdout=writer) as process:
        os.close(writer)
        total = 0
        while total < 100 << 20:  # until a hundred megabytes have gone through
            total += len(os.read(reader, 1 << 20))
        grown = {key: size - memory[key] for key, size in resident_bytes(lab).items()}
        assert all(size < 40 << 20 for size in grown.values()), grown
        os.close(reader)  # and a reader that goes away ends the writer
        assert process.wait(timeout=120) != 0
    lab.wait_until(lambda: not lab.jobs_alive(), "cat is gone")


def test_a_pipeline_longer_than_the_slots_is_no_deadlock(make_lab):
    """The commands wait for each other, so they must not wait for each other's slots."""
    lab = make_lab(2, settings=(*FAST, "lbm.slots=1", "lbm.named_wait_s=0.5"))
    stage = "lbrun -H h2 cat"
    script = f"head -c 3000000 /dev/zero | {stage} | {stage} | {stage} | wc -c"
    result = lab.run("h1", "sh", "-c", script, timeout=60)
    assert (result.stdout.strip(), result.stderr) == ("3000000", "")


def test_a_broken_cluster_does_not_start_everything_at_once_here(lab, tmp_path):
    """-j200 with a dead LBM: as many at a time as the bound allows, and every one of them runs."""
    counter = tmp_path / "counter"
    counter.mkdir()
    lab.kill("h1", "lbm")
    try:
        command = f"touch {counter}/$$; ls {counter} | wc -l; sleep 0.2; rm {counter}/$$"
        script = f"seq 60 | xargs -P60 -I{{}} lbrun sh -c '{command}' 2>/dev/null"
        result = lab.run("h1", "sh", "-c", script, timeout=120, stdout=subprocess.PIPE)
        seen = [int(line) for line in result.stdout.split()]
        assert len(seen) == 60
        assert max(seen) <= 2 * len(os.sched_getaffinity(0))
    finally:
        lab.start("h1", "lbm")
