"""60 times something dies or is cut off at a random moment: nothing is left, and all works again.

A case is a number that determines which commands run, which fault happens to what, and when. The
seed is new in every run and shown by a failure; `LBD_KILL_SEED=S` sets it, and
`LBD_KILL_SEED=S:CASE` plays one case of it alone, in every lab.
"""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass

import pytest
from kill_points import KINDS, Running, leftovers, mark_of, resources

from tests.live.cluster import FAST, Lab, lab_command
from tests.live.contract import alive

CASES, BATCHES = 60, 2  # batches in each lab
SEED, _, ONE = os.environ.get("LBD_KILL_SEED", "").partition(":")
SEED = SEED or os.urandom(4).hex()
SLACK = 4  # descriptors: a connection more or less, at either end

QUICK = ("lbm.orphan_after_s=0.5", "lbm.kill_grace_s=0.3", "lbm.named_wait_s=60")
CONTAINMENT = {"cgroups": "auto", "sessions": "off"}

# The faults and their frequency; every fifth time the far keeper is killed.
FAULTS = {"client": 35, "near-keeper": 12, "far-lbm": 21, "near-lbm": 17, "cut": 15}
END_ALL = {"far-lbm", "near-lbm", "cut"}  # no command can go on after these
KEEPERS_TURN = 5


@dataclass(frozen=True)
class Case:
    """One case, drawn from the seed and the number."""

    number: int
    fault: str
    at_s: float
    patience_s: float  # from the fault until commands that still run are told to end
    starts: tuple[tuple[float, str], ...]  # (when, kind)
    victim: int  # which client dies if it is a client's turn
    by_hand: bool  # whether commands that should end by themselves are told to end all the same


def drawn(number):
    rng = random.Random(f"{SEED}:{number}")
    kinds = rng.choices(list(KINDS), k=rng.randint(1, 4))
    longest_s = rng.choice((0.02, 0.2, 0.5))
    fault = rng.choices(list(FAULTS), list(FAULTS.values()))[0]
    if number % KEEPERS_TURN == 0:
        fault = "far-keeper"
    return Case(
        number,
        fault,
        rng.uniform(0, longest_s),
        rng.uniform(0, 0.3),
        tuple((rng.uniform(0, longest_s / 2), kind) for kind in kinds),
        rng.randrange(len(kinds)),
        rng.random() < 0.3,
    )


@pytest.fixture(scope="module", params=CONTAINMENT)
def lab(request):
    """Two hosts that have run commands of each other."""
    lab = Lab.up(2, settings=(*FAST, *QUICK, f"lbm.cgroup={CONTAINMENT[request.param]}"))
    lab.half = list(CONTAINMENT).index(request.param)
    warm(lab)
    yield lab
    lab.down()


def warm(lab):
    for _ in range(3):
        works(lab)
    for near, far in (lab.hosts, lab.hosts[::-1]):
        lab.run(near, "lbrun", "-H", far, "--fetch", "none", "true")


@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_left_and_all_works_again(lab, batch, tmp_path):
    play_all(lab, tmp_path, [n for n in numbers(lab)[batch::BATCHES] if n % KEEPERS_TURN])


def test_the_far_keeper(lab, tmp_path):
    play_all(lab, tmp_path, [n for n in numbers(lab) if n % KEEPERS_TURN == 0])


def numbers(lab):
    """The cases of this lab: half of them, or the one that was asked for."""
    return [int(ONE)] if ONE else range(CASES)[lab.half :: 2]


def play_all(lab, folder, cases):
    before = resources(lab)
    for case in map(drawn, cases):
        place = folder / str(case.number)
        place.mkdir()
        try:
            play(lab, case, place)
            mend(lab, case)
        except BaseException:
            print(f"LBD_KILL_SEED={SEED}:{case.number} plays this: {case}")
            raise
    lab.wait_until(
        lambda: not grown(before, resources(lab)),
        f"no more descriptors, cgroups and files than before (seed {SEED})", 30,
        lambda: grown(before, resources(lab)),
    )  # fmt: skip


def grown(before, after):
    """What has grown, as {what: (before, after)}; a few descriptors do not count."""
    return {
        what: (before[what], count)
        for what, count in after.items()
        if count > before[what] + (SLACK if what[-1] == "descriptors" else 0)
    }


def play(lab, case, folder):
    """Starts the commands and plants the fault, each at its time; then checks everything."""
    running, cutting = [], None
    marks = marks_of(case)
    try:
        keepers = {host: keeper(lab, host) for host in lab.hosts}
        started_s = time.monotonic()
        events = [(at_s, index) for index, (at_s, _) in enumerate(case.starts)]
        for at_s, index in sorted([*events, (case.at_s, -1)]):
            time.sleep(max(0.0, started_s + at_s - time.monotonic()))
            if index >= 0:
                kind = KINDS[case.starts[index][1]]
                running.append((index, Running(lab, kind, marks[index], folder)))
            elif case.fault == "cut":
                cutting = subprocess.Popen(
                    lab_command("cut", *lab.hosts, "--dir", lab.root), env=lab.environment("h1")
                )
            else:
                harm(lab, case, dict(running), keepers)
        if cutting:
            cutting.wait()
        see_the_end(lab, case, running, folder)
    finally:
        for _, one in running:
            one.give_up()
        if cutting:
            cutting.wait()


def marks_of(case):
    """A number for each of its commands."""
    return [10 * case.number + index for index in range(len(case.starts))]


def host_of(case):
    return "h1" if case.fault.startswith("near") else "h2"


def harm(lab, case, running, keepers):
    host = host_of(case)
    if case.fault == "client":
        if case.victim in running:
            running[case.victim].kill()
    elif case.fault.endswith("-keeper"):
        os.kill(keepers[host], signal.SIGKILL)
    else:
        os.kill(int((lab.paths(host).run / "lbm.pid").read_text()), signal.SIGKILL)


def keeper(lab, host):
    """The keeper's pid, which may have changed since the last case."""

    def running():
        pid = lab.ask(host, "lbm", "status")["keeper"]
        return alive(pid) and pid

    return lab.wait_until(running, f"{host} has a keeper")


def see_the_end(lab, case, running, folder):
    """Checks that every client ends as it should and that no process of any command is left."""
    if case.fault not in END_ALL or case.by_hand:
        time.sleep(case.patience_s)
        for _, one in running:
            one.ask_to_end()
    for _, one in running:
        one.assert_ended_well()
    strange = [file.name for file in folder.iterdir() if not expected(file.name, case)]
    assert not strange, f"left in the working directory: {strange}"
    lab.wait_until(
        lambda: not leftovers(lab, marks_of(case)),
        "no process of any command is left", 30, lambda: leftovers(lab, marks_of(case)),
    )  # fmt: skip


def expected(name, case):
    return name.startswith("errors-") or name in map(mark_of, marks_of(case))


def mend(lab, case):
    """Checks that all daemons run again and do their work."""
    if case.fault == "cut":
        lab.heal()
    elif case.fault.endswith("-lbm"):
        host = host_of(case)
        lab.wait_until(lambda: lab.start(host, "lbm") or True, f"the lbm of {host} starts", 40)
    works(lab)
    lab.wait_until(lambda: not busy(lab), "no job counts", 30, lambda: busy(lab))


def works(lab):
    for near, far in (lab.hosts, lab.hosts[::-1]):
        command = (near, "lbrun", "-H", far, "echo", "through")
        lab.wait_until(
            lambda command=command: lab.run(*command).stdout == "through\n",
            f"{far} runs commands of {near}", 30,
        )  # fmt: skip


def busy(lab):
    """What the daemons say they still hold."""
    found = []
    for host in lab.hosts:
        status = lab.ask(host, "lbm", "status")
        if status["slots"]["used"] or status["waiting"]:
            found.append((host, status))
        found += lab.ask(host, "lbm", "jobs").get("jobs", [])
    return found
