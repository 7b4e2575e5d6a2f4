"""Makes one run: starts the users of all hosts at the same moment and collects the results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from lbd.errors import LbdError
from lbd.experiment import bench_lab, meters
from lbd.experiment.commands import Command
from lbd.experiment.design import Case, Design
from lbd.experiment.outcome import HostCost, Job, Outcome
from lbd.lab import hosts
from lbd.lab.record import Record
from lbd.load.procfs import machine_cpu_s
from lbd.sim.scripts import ScriptLine, Work, levels, scripts

USERS = Path(__file__).with_name("users.py")
HEAD_START_S = 1.5  # for the users of every host to be ready
POLL_S = 0.2
LATE = 10.0  # × the duration, plus `GRACE_S`: no run takes longer
GRACE_S = 60.0
END_S = 5.0

Users = dict[str, "subprocess.Popen[bytes]"]
Watch = Callable[[float], None]  # called with the share of the run that has passed


def made(
    record: Record,
    design: Design,
    case: Case,
    commands: Sequence[Command],
    work: Path,
    watch: Watch,
) -> Outcome:
    """Raises LbdError if the run cannot be made or does not end."""
    bench_lab.prepare(record, design, case)
    drawn = scripts_of(design, case.load, commands, case.replication)
    by_name = {command.name: command for command in commands}
    before = meters.read_all(record)
    machine_s = machine_cpu_s()
    began, start_s = time.time(), time.monotonic() + HEAD_START_S
    users = let_go(record, drawn, by_name, work, start_s)
    try:
        wait_for(users, work, start_s, design.duration_s, watch)
    finally:
        end(users)
    elapsed_s = time.monotonic() - start_s
    after = meters.read_all(record)
    machine_s = machine_cpu_s() - machine_s
    jobs, said = reported(record, drawn, by_name, work)
    letters = levels(case.load, design.hosts)
    sent = {host: sum(1 for job in jobs if job.host == host and job.may_leave) for host in before}
    costs = tuple(
        host_cost(record, host, level, (before[host], after[host]), began, sent[host])
        for host, level in zip(record.plan.hosts, letters, strict=True)
    )
    others_s = machine_s - sum(cost.cpu_s for cost in costs)
    return Outcome(
        case=case, began=round(began, 3), elapsed_s=round(elapsed_s, 3),
        others_cores=round(max(0.0, others_s / (elapsed_s + HEAD_START_S)), 3),
        jobs=jobs, hosts=costs, said=said,
    )  # fmt: skip


def work_of(design: Design, load: str, commands: Sequence[Command]) -> Work:
    leaving = [command.name for command in commands if command.may_leave]
    staying = [command.name for command in commands if not command.may_leave]
    return design.work(load, leaving, staying)


def scripts_of(
    design: Design, load: str, commands: Sequence[Command], replication: int
) -> list[list[list[ScriptLine]]]:
    """Returns the scripts of each user of each host."""
    return scripts(work_of(design, load, commands), f"{design.seed} {replication}")


def let_go(
    record: Record, drawn: Sequence[Sequence[Sequence[ScriptLine]]], commands: dict[str, Command],
    work: Path, start_s: float,
) -> Users:  # fmt: skip
    lbrun = hosts.programs()
    program = str(Path(lbrun[0], "lbrun")) if lbrun else "lbrun"
    users = {}
    for host, its in zip(record.plan.hosts, drawn, strict=True):
        orders = []
        for number, lines in enumerate(its):
            directory = work / f"{host}-{number + 1}"
            directory.mkdir(parents=True, exist_ok=True)
            argvs = [[line.think_s, argv(commands[line.kind], line, program)] for line in lines]
            orders.append({"directory": str(directory), "lines": argvs})
        if not any(one["lines"] for one in orders):
            continue
        paper = work / f"{host}.orders"
        paper.write_text(json.dumps({"start_s": start_s, "users": orders}))
        results = work / f"{host}.results"
        results.unlink(missing_ok=True)
        words = [record.plan.paths(host).enter, sys.executable, "-I", "-S", USERS, paper, results]
        with (work / f"{host}.log").open("wb") as log:
            users[host] = subprocess.Popen(
                list(map(str, words)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=work,
                env=hosts.inside_environment(record, host),
            )  # fmt: skip
    return users


def argv(command: Command, line: ScriptLine, lbrun: str) -> list[str]:
    words = command.argv(command.units(line.demand_s))
    return [lbrun, "-v", "--", *words] if command.may_leave else words


def wait_for(users: Users, work: Path, start_s: float, duration_s: float, watch: Watch) -> None:
    """Waits until every script has ended. Raises LbdError."""
    deadline_s = start_s + LATE * duration_s + GRACE_S
    while busy := [host for host, child in users.items() if child.poll() is None]:
        now_s = time.monotonic()
        if now_s > deadline_s:
            raise LbdError(
                f"the users of {', '.join(busy)} are not done after {now_s - start_s:.0f} s "
                f"of a run of about {duration_s:g} s; is this machine busy with something else?"
            )
        watch(min(1.0, max(0.0, now_s - start_s) / duration_s))
        time.sleep(POLL_S)
    for host, child in users.items():
        if child.returncode:
            why = last_lines(work / f"{host}.log")
            raise LbdError(f"the users of {host} ended with {child.returncode}: {why}")


def last_lines(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").split("\n")
    except OSError as problem:
        return f"{log}: {problem.strerror}"
    return " / ".join(line for line in lines[-3:] if line)


def end(users: Users) -> None:
    for child in users.values():
        if child.poll() is None:
            child.terminate()
    for child in users.values():
        with suppress(subprocess.TimeoutExpired):
            child.wait(END_S)


def reported(
    record: Record, drawn: Sequence[Sequence[Sequence[ScriptLine]]], commands: dict[str, Command],
    work: Path,
) -> tuple[tuple[Job, ...], str]:  # fmt: skip
    """Returns the users' results, and the error output of the first command that failed."""
    jobs: list[Job] = []
    complaint = ""
    for host, its in zip(record.plan.hosts, drawn, strict=True):
        with suppress(FileNotFoundError):
            for text in (work / f"{host}.results").read_text().splitlines():
                user, number, submitted_s, response_s, ran_on, status, said = json.loads(text)
                line = its[user][number]
                jobs.append(
                    Job(
                        host, user + 1, number + 1, line.kind, commands[line.kind].may_leave,
                        line.demand_s, submitted_s, response_s, ran_on or host, status,
                    )
                )  # fmt: skip
                if status and not complaint:
                    complaint = f"{line.kind}: {' '.join(said.split())}"
    expected = sum(len(lines) for its in drawn for lines in its)
    if len(jobs) != expected:
        raise LbdError(f"{len(jobs)} of {expected} commands are told of; see {os.fspath(work)}")
    return tuple(jobs), complaint


def host_cost(
    record: Record, host: str, level: str, readings: tuple[meters.Reading, meters.Reading],
    since: float, sent: int,
) -> HostCost:  # fmt: skip
    """Returns the host's costs. `sent` is the number of commands that its LBM should have on record
    a moment after the last one."""
    before, after = readings
    deadline_s = time.monotonic() + bench_lab.ACCOUNTED_S
    while True:
        accounted, wrong = bench_lab.accounted(record, host, since)
        if accounted >= sent or time.monotonic() > deadline_s:
            break
        time.sleep(POLL_S)
    return HostCost(
        host=host,
        level=level,
        cpu_s=round(after.cpu_s - before.cpu_s, 4),
        lim_cpu_s=round(after.lim_cpu_s - before.lim_cpu_s, 4),
        lbm_cpu_s=round(after.lbm_cpu_s - before.lbm_cpu_s, 4),
        lim_bytes=meters.bytes_between(before, after, "lim"),
        lbm_bytes=meters.bytes_between(before, after, "lbm"),
        messages=after.messages - before.messages,
        accounted=accounted,
        wrong=wrong,
    )
