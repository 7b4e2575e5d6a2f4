"""Every queueing discipline with real jobs on two hosts of one slot each."""

import time

import pytest

from tests.live.cluster import FAST, Lab
from tests.live.queue_past import away, put

SETTINGS = (*FAST, "dispatch.lease_s=5", "lbm.slots=1", "tags.cutoffs_s=[1.0]")
BIG, SMALL = ("sh", "big.sh"), ("sh", "small.sh")  # by what is on record of them


@pytest.fixture(scope="module")
def lab():
    lab = Lab.up(2, "none", "--mode", "fcfs", settings=SETTINGS)
    with away(lab) as db:
        for command, cpu_s in ((BIG, 500.0), (SMALL, 0.01)):
            put(db, [word.encode() for word in command], time.time() - 1000.0, cpu_s)
    yield lab
    lab.down()


@pytest.fixture
def scripts(tmp_path):
    (tmp_path / "big.sh").write_text("exec sleep 60\n")
    (tmp_path / "small.sh").write_text("echo small\n")
    return tmp_path


def use(lab, mode):
    """The dispatcher begins anew in that mode, and knows both hosts."""
    config = lab.paths("h1").config
    lines = config.read_text().splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("mode = "))
    with away(lab):
        config.write_text("\n".join([*lines[:at], f'mode = "{mode}"', *lines[at + 1 :], ""]))
    lab.wait_until(
        lambda: lab.ask("h1", "dispatcher", "status")["hosts"] == ["h1", "h2"], "both hosts"
    )


def submit(lab, where, *words):
    return lab.run("h2", "lbrun", "-d", *words, cwd=where, check=True).stdout.strip()


def hosts_of(lab, ids):
    """Where they ended; all went well."""
    assert lab.run("h1", "lbctl", "wait", "--timeout", "30s", ids).returncode == 0
    told = lab.ask("h1", "lbm", "queue.jobs", ids=[ids])["jobs"]
    return [job["host"] for job in told]


def big_on(lab, where):
    """A big one, and the host that it runs on."""
    number = submit(lab, where, *BIG)
    return number, lab.wait_until(lambda: running_on(lab, number), "it runs")


def running_on(lab, number):
    (job,) = lab.ask("h1", "lbm", "queue.jobs", ids=[number])["jobs"]
    return job["host"] if job["state"] == "running" else ""


def end(lab, number):
    lab.run("h1", "lbctl", "kill", "-s", "KILL", number, check=True)
    lab.run("h1", "lbctl", "wait", "--timeout", "30s", number)


def test_random(lab, scripts):
    use(lab, "random")
    assert set(hosts_of(lab, submit(lab, scripts, "--array", "1-16", *SMALL))) == {"h1", "h2"}


def test_round_robin(lab, scripts):
    use(lab, "round-robin")
    hosts = hosts_of(lab, submit(lab, scripts, "--array", "1-6", *SMALL))
    assert hosts in (["h1", "h2"] * 3, ["h2", "h1"] * 3)


def test_shortest_queue(lab, scripts):
    use(lab, "shortest-queue")
    first, host = big_on(lab, scripts)
    assert host not in hosts_of(lab, submit(lab, scripts, *SMALL))
    second, other = big_on(lab, scripts)
    assert other != host
    end(lab, first)
    assert hosts_of(lab, submit(lab, scripts, *SMALL)) == [host]
    end(lab, second)


def test_least_work_goes_by_what_the_same_commands_took(lab, scripts):
    use(lab, "least-work")
    number, host = big_on(lab, scripts)
    (other,) = {"h1", "h2"} - {host}
    # Three jobs wait or run there, and yet it is less work.
    assert hosts_of(lab, submit(lab, scripts, "--array", "1-3", *SMALL)) == [other] * 3
    end(lab, number)


def test_sita_e_too_and_the_unknown_go_last(lab, scripts):
    use(lab, "sita-e")
    assert hosts_of(lab, submit(lab, scripts, "--array", "1-2", *SMALL)) == ["h1", "h1"]
    assert hosts_of(lab, submit(lab, scripts, "expr", "1")) == ["h2"]
    lab.wait_until(
        lambda: hosts_of(lab, submit(lab, scripts, "expr", "1")) == ["h1"], "it has learnt"
    )
    number, host = big_on(lab, scripts)
    assert host == "h2"
    end(lab, number)
