"""`lbd lab experiment`: repeats chapter 4 of Zhou's thesis on live hosts on this machine."""

import argparse
import importlib
import math
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from lbd.cli.complaints import complain
from lbd.cli.extras import has_matplotlib
from lbd.console.output import print_json, print_table
from lbd.console.reply import Json
from lbd.errors import ConfigError, LbdError
from lbd.experiment import bench_lab, report, run, thesis, workbench
from lbd.experiment.commands import NAMES, Command, chosen
from lbd.experiment.design import INDEX, NOLB, Case, Design, algorithms_of, index_of, words_of
from lbd.experiment.outcome import Outcome
from lbd.experiment.store import Store
from lbd.experiment.summary import Row, rows
from lbd.lab.namespaces import why_not
from lbd.lab.plan import HOSTS_MAX, parse_setting
from lbd.lab.record import Record, own_place
from lbd.sim.foretold import Asked, reductions
from lbd.sim.scripts import LEVELS, check_loads
from lbd.text.install_line import install_line
from lbd.text.units import duration_text

PROGRAM = "lbd lab experiment"
CPU_SHARE = 0.85  # of this machine, for all hosts together; the rest is for other processes
CPUS_LEAST = 0.05
OVERHEAD_S = 6.0  # for each run, until the hosts are configured and idle
LAB_S = 10.0


def say(line: str) -> None:
    complain(PROGRAM, line)


def main(options: argparse.Namespace) -> int:
    design = designed(options)
    store = Store(options.out.resolve())
    place = options.dir or own_place("experiment")
    if not store.root.exists():  # nothing is made where nothing can be run
        check_machine()
    with store.held():
        design, commands = begun(store, design)
        outcomes = carried_out(store, design, commands, place, str(options.out))
        found = with_simulated(design, commands, rows(design, outcomes))
        how = how_made(design, commands, str(options.out))
        write_report(store, design, how, found, outcomes)
    if options.json:
        print_json(as_json(design, how, found, store.report))
    else:
        show(design, how, found, store.report)
    return 0


def designed(options: argparse.Namespace) -> Design:
    """Raises ConfigError for an impossible design."""
    if options.hosts > HOSTS_MAX:
        raise ConfigError(f"--hosts {options.hosts}: {HOSTS_MAX} at most")
    check_loads(options.load, options.hosts)
    for name in options.index:
        index_of(name)
    for setting in options.settings:
        parse_setting(setting)
    for name in ("load", "index"):
        if not getattr(options, name):
            raise ConfigError(f"--{name}: name at least one")
    cores = len(os.sched_getaffinity(0))
    share = max(CPUS_LEAST, math.floor(100 * CPU_SHARE * cores / options.hosts) / 100)
    commands = chosen(options.commands, workbench.find)
    if not options.commands and (left_out := set(NAMES) - {one.name for one in commands}):
        say(f"not on this machine and left out: {', '.join(sorted(left_out))}")
    design = Design(
        hosts=options.hosts, cpus=options.cpus or share, loads=tuple(dict.fromkeys(options.load)),
        algorithms=algorithms_of(options.algorithm),
        indices=tuple(dict.fromkeys(str(index_of(name)) for name in options.index)),
        users=options.users, demand_s=options.demand, duration_s=options.duration,
        replications=options.replications, seed=options.seed,
        commands=tuple(one.name for one in commands), settings=tuple(options.settings),
    )  # fmt: skip
    check_scripts(design, commands)
    return design


def check_scripts(design: Design, commands: Sequence[Command]) -> None:
    """Raises ConfigError if no user would have anything to do in a run."""
    for load in design.loads:
        for replication in range(design.replications):
            drawn = run.scripts_of(design, load, commands, replication)
            if not any(lines for users in drawn for lines in users):
                raise ConfigError(
                    f"--duration {duration_text(design.duration_s)}: too short for any user to "
                    f"start a command of {design.demand_s:g} s under load {load}; increase it, or "
                    "reduce --demand"
                )


def check_machine() -> None:
    """Raises LbdError."""
    if obstacle := why_not():
        raise LbdError(f"cannot create hosts in namespaces here: {obstacle}")


def begun(store: Store, design: Design) -> tuple[Design, list[Command]]:
    """Returns the design, and the commands with their costs; from an earlier call if this continues
    one. Raises ConfigError if that one had another design."""
    earlier = store.begun()
    if earlier is None:
        check_machine()
        inputs, scratch = store.work / "inputs", store.work / "scratch"
        workbench.make_inputs(inputs)
        scratch.mkdir(exist_ok=True)
        progress(f"measuring {len(design.commands)} commands")
        commands = workbench.measured(chosen(design.commands, workbench.find), inputs, scratch)
        store.begin(design, commands)
        return design, commands
    was, commands = earlier
    if was != design:
        differing = [name for name, value in asdict(was).items() if asdict(design)[name] != value]
        raise ConfigError(
            f"{store.root} belongs to another experiment ({', '.join(differing)} differ); use "
            f"another --out, or continue that one: {was.line(str(store.root))}"
        )
    workbench.make_inputs(store.work / "inputs")
    return was, commands


def carried_out(
    store: Store, design: Design, commands: list[Command], place: Path, out: str
) -> list[Outcome]:
    """Makes the missing runs. Returns all runs, those made earlier first."""
    if left := store.left_lab():
        bench_lab.down(left)
        store.lab_gone()
    cases = design.cases()
    done = {case: outcome for case in cases if (outcome := store.outcome(case))}
    missing = [case for case in cases if case not in done]
    print(design.line(out), file=sys.stderr)
    if missing:
        check_machine()
        went = f"{len(done)} of {len(cases)} runs are done; " if done else ""
        count = f"{len(missing)} run{'s' * (len(missing) != 1)}"
        say(f"{went}{count}, about {duration_text(expected_s(design, missing))}")
        store.has_lab(place)
        try:
            progress(f"starting {design.hosts} hosts")
            record = bench_lab.up(place, design, say)
            for case in missing:
                at = f"run {len(done) + 1} of {len(cases)}: {case.name}"
                done[case] = made(record, store, design, commands, case, at)
        finally:
            progress("")
            bench_lab.down(place)
            store.lab_gone()
            if len(done) < len(cases):
                say(
                    f"{len(done)} of {len(cases)} runs are saved; the same command continues from "
                    "there"
                )
    store.tidy()
    return [done[case] for case in cases]


def made(
    record: Record, store: Store, design: Design, commands: Sequence[Command], case: Case, at: str
) -> Outcome:
    """Makes one run and stores it."""
    outcome = run.made(
        record, design, case, commands, store.work, lambda share: progress(f"{at}  {share:4.0%}")
    )
    store.keep(outcome)
    if outcome.said:
        progress("")
        say(f"{case.name}: a command failed: {outcome.said}")
    return outcome


def with_simulated(design: Design, commands: Sequence[Command], found: Sequence[Row]) -> list[Row]:
    """Adds to each row what the simulator predicts."""
    works = {load: run.work_of(design, load, commands) for load in design.loads}
    asked = [
        Asked(row.load, row.algorithm, words_of(design, row.algorithm, row.index))
        for row in found
        if row.algorithm != NOLB
    ]
    predicted = iter(reductions(asked, works, design.replications, design.seed))
    return [
        row if row.algorithm == NOLB else replace(row, simulated=next(predicted)) for row in found
    ]


def expected_s(design: Design, cases: Sequence[Case]) -> float:
    return LAB_S + len(cases) * (design.duration_s + OVERHEAD_S)


def progress(text: str) -> None:
    """Overwrites one line on the terminal; "" ends it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def how_made(design: Design, commands: Sequence[Command], out: str) -> report.Made:
    names = ", ".join(f"{one.name} ({Path(one.words[0]).name})" for one in commands)
    return report.Made(
        line=design.line(out), machine=f"{os.cpu_count()} cores, {platform.platform(terse=True)}",
        when=time.strftime("%Y-%m-%d"), cores=os.cpu_count() or 1, commands=names,
    )  # fmt: skip


def write_report(
    store: Store, design: Design, made: report.Made, found: list[Row], outcomes: list[Outcome]
) -> None:
    drawings: list[str] = []
    if not has_matplotlib():
        say(
            f"the report has no figures; for them, {install_line('matplotlib')} and run the same "
            "command again"
        )
    else:
        drawings = importlib.import_module("lbd.cli.lab.experiment_plot").drawings(found, outcomes)
    try:
        store.report.write_text(report.html(design, made, found, drawings), encoding="utf-8")
    except OSError as problem:
        raise LbdError(f"{store.report}: {problem.strerror}") from problem


def as_json(design: Design, made: report.Made, found: Sequence[Row], path: Path) -> Json:
    return {
        "line": made.line, "machine": made.machine, **asdict(design), "report": str(path),
        "results": [as_row(row) for row in found],
        "claims": [asdict(claim) for claim in thesis.claims(found)],
    }  # fmt: skip


def as_row(row: Row) -> Json:
    kinds = [
        {"command": name, "jobs": jobs, "mean_response_s": mine, "nolb_mean_response_s": base}
        for name, (jobs, mine, base) in row.by_kind.items()
    ]
    levels = [
        {"level": LEVELS[name], "mean_response_s": mine,
         "nolb_mean_response_s": base, "cpu_utilisation": busy}
        for name, (mine, base, busy) in row.by_level.items()
    ]  # fmt: skip
    plain = {key: value for key, value in asdict(row).items() if not key.startswith("by_")}
    return {**plain, "by_command": kinds, "by_level": levels}


def show(design: Design, how: report.Made, found: Sequence[Row], path: Path) -> None:
    head = ("LOAD", "ALGORITHM", "INDEX", ">JOBS", ">MEAN", ">± 95 %", ">SD", ">SAVES", ">± 95 %",
            ">SIMULATED", ">PRINTED", ">MOVED", ">WRONG", ">LIM CPU", ">LBM CPU",
            ">LIM B/S")  # fmt: skip
    print_table(head, [shown(row) for row in found])
    for claim in thesis.claims(found):
        print(f"{'holds' if claim.holds else 'DOES NOT HOLD'}: {claim.text} [{claim.ours}]")
    if names := thesis.cannot_tell(found):
        print(
            f"cannot be told of {names}: nothing was moved, or too little was run for an interval"
        )
    print(f"\n{report.caveat(design, how, found)}\n\n{path}")


def shown(row: Row) -> list[str]:
    base = row.algorithm == NOLB
    is_his = row.load == "canonical" and row.index == INDEX
    dash = report.DASH
    return [
        row.load, row.algorithm, dash if base else row.index, str(row.jobs),
        report.seconds(row.mean_s), report.seconds(row.mean_ci95_s), report.seconds(row.sd_s),
        dash if base else report.percent(row.reduction), report.percent(row.reduction_ci95),
        report.simulated(row),
        report.percent(thesis.MEAN.get(row.algorithm)) if is_his else dash,
        report.percent(row.moved), report.percent(row.wrong) if row.moved else dash,
        report.percent(row.lim_cores), report.percent(row.lbm_cores), report.whole(row.lim_bytes_s),
    ]  # fmt: skip
