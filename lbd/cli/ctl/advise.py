"""`lbctl advise`: simulates the last day's jobs again to find better settings."""

import argparse
import math
import os
import time
from dataclasses import fields
from functools import partial

from lbd.cli.ctl.advise_rules import (
    malleable_json,
    malleable_lines,
    owner_lines,
    owner_results,
    owners_json,
    queue_results,
)
from lbd.cli.ctl.stats import DAY_S, span
from lbd.cli.ctl.verb import Verb, complain_of, reading, say
from lbd.cli.sim.pool import NICENESS, WORKERS, Pool
from lbd.config.schema import LimConfig
from lbd.console.daemons import Daemons
from lbd.console.figures import duration
from lbd.console.output import Row, print_json, print_table, put
from lbd.console.reply import Json, number, table, tables, text
from lbd.console.usage_hosts import ask_host, gather, pages
from lbd.errors import ConfigError, PeerError
from lbd.local.json_socket import Refusal
from lbd.sim.advice import (
    JOBS_MIN,
    Day,
    Finding,
    PastHost,
    PastJob,
    Trial,
    best,
    day_of,
    findings,
    replications,
    setup_for,
    trials,
)
from lbd.sim.balance.runs import Outcome, load_of, run_once
from lbd.text.units import counted, duration_text

HOUR_S = 3600.0
HOST_JOBS_MAX = 100_000
PAGES_MAX = 100  # of one host; 50 hold `HOST_JOBS_MAX` jobs, unless pages are short
ONE_HOST = "this cluster has only one host, so there is nothing to tune"
HEADER = ("ALGORITHM", "WITH", ">RESPONSE", ">SAVES", ">± 95 %", ">MOVED", ">WRONG", ">MSG/HOST/S",
          ">CPU COST")  # fmt: skip
EXAMPLES = (
    "lbctl advise                      from the last day's jobs",
    "lbctl advise --since 7d           from a week's jobs, for settings meant to last",
    "lbctl advise --json | jq '.best'",
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--since", metavar="TIME", type=span, default=DAY_S,
                        help="only jobs that ended since then: 7d, yesterday; default "
                             "1d")  # fmt: skip


def advise(daemons: Daemons, options: argparse.Namespace) -> int:
    until = time.time()
    since = max(0.0, until - options.since)
    found = gather(daemons, lambda host: history(daemons, host, since))
    complain_of(found.missing)
    jobs = [job for host in found.answers.values() for job in host]
    day = read_day(daemons, jobs)
    if day.strangers:
        left_out = f"{day.strangers} jobs are left out"
        say(f"{left_out}: their hosts have left the cluster")
    results = replayed(day) if not reason_not(day, options.since) else []
    owners = owner_results(daemons, since)
    queue = queue_results(daemons, since)
    if day.setup.hosts < 2 and not (owners or queue):
        raise ConfigError(ONE_HOST)
    if options.json:
        reply: Json = {
            "since": since,
            "until": until,
            "hosts": sorted(found.answers),
            "missing": sorted(found.missing),
            **as_json(day, results),
            "owners": owners_json(owners),
            "malleable": malleable_json(queue),
        }
        print_json(reply)
    else:
        show(day, results, options.since)
        if owners:
            put("", *owner_lines(owners))
        if queue:
            put("", *malleable_lines(queue))
    return 0


def history(daemons: Daemons, host: str, since: float) -> list[PastJob]:
    """Reads the jobs page by page, so that the host's LBM can serve its commands in between."""
    jobs: list[PastJob] = []
    after = 0
    for _ in pages(PAGES_MAX):
        if len(jobs) >= HOST_JOBS_MAX:
            break
        page = ask_host(daemons, "history", host, since=since, after=after).get("jobs")
        if not isinstance(page, list):
            raise PeerError("the daemon's answer contains no jobs; is it another version?")
        if not page:
            return jobs
        jobs += [PastJob(*row[1:]) for row in page]
        if page[-1][0] <= after:
            raise PeerError(f"{host} sent a page of jobs that goes backwards")
        after = page[-1][0]
    say(f"{host}: only its oldest {len(jobs)} jobs are used; try a shorter --since")
    return jobs


def read_day(daemons: Daemons, jobs: list[PastJob]) -> Day:
    status = daemons.lim({"op": "status"})
    hosts = [
        PastHost(text(row, "name"), number(row, "cores"), number(row, "speed"))
        for row in tables(status, "hosts")
        if number(row, "cores") > 0 and number(row, "speed") > 0
    ]
    return day_of(jobs, hosts, text(table(status, "cluster"), "algorithm"), parameters(daemons))


def parameters(daemons: Daemons) -> dict[str, float]:
    """Returns the parameters in force, by short name."""
    found: dict[str, float] = {}
    for name in (*(item.name for item in fields(LimConfig)), "smoothing_s"):
        try:
            value = number(daemons.lim({"op": "param", "name": name}), "value")
        except Refusal:  # not a parameter that can be changed
            continue
        if not math.isnan(value):
            found[name] = value
    return found


def reason_not(day: Day, span_s: float) -> str:
    """Returns why no advice can be given on placement; "" if it can."""
    if day.setup.hosts < 2:
        return ONE_HOST
    if day.movable >= JOBS_MIN:
        return ""
    return (
        f"{day.jobs} jobs in {duration_text(span_s)}, {day.movable} of them movable and worth "
        f"moving, with more than {duration_text(day.setup.lim.job_threshold_s)} of CPU time: too "
        f"few to judge ({JOBS_MIN} are needed; try a longer --since)"
    )


def replayed(day: Day) -> list[Finding]:
    """Simulates the day at the lowest priority, so that this host's commands go first."""
    os.nice(NICENESS)
    wanted = trials(day)
    times = replications(day)
    runs = [(trial, number) for trial in wanted for number in range(times)]
    outcomes = Pool("lbctl advise", WORKERS)(partial(replay, day), runs)
    by_trial = [outcomes[at : at + times] for at in range(0, len(runs), times)]
    return findings(day, list(zip(wanted, by_trial, strict=True)))


def replay(day: Day, run: tuple[Trial, int]) -> Outcome:
    trial, number = run
    return run_once(setup_for(day, trial), trial.algorithm, number)


# Output


def as_json(day: Day, results: list[Finding]) -> Json:
    chosen = best(results)
    return {
        "algorithm": day.setup.lim.algorithm,
        "jobs": day.jobs,
        "movable": day.movable,
        "needed": JOBS_MIN,
        "not_measured": day.guessed,
        "utilisation": load_of(day.setup) if day.jobs else None,
        "verdict": verdict(day, results, chosen),
        "best": finding_json(chosen) if chosen is not None else None,
        "results": [finding_json(one) for one in results],
    }


def verdict(day: Day, results: list[Finding], chosen: Finding | None) -> str:
    if not results:
        return "one-host" if day.setup.hosts < 2 else "too-few-jobs"
    return "better" if chosen is not None else "nothing-better"


def finding_json(one: Finding) -> Json:
    return {
        "algorithm": one.trial.algorithm,
        "parameters": dict(one.trial.parameters),
        "mean_response_s": one.mean_response_s,
        "gain": one.gain,
        "gain_ci95": one.gain_ci,
        "better": one.is_better,
        "transferred": one.transferred,
        "wrong_transfers": one.wrong_transfers,
        "messages_per_host_s": one.messages_per_host_s,
        "overhead": one.overhead,
    }


def show(day: Day, results: list[Finding], span_s: float) -> None:
    if not results:
        say(reason_not(day, span_s))
        return
    now = results[0]
    put(
        f"{day.jobs} jobs of {duration_text(span_s)} on {day.setup.hosts} hosts, replayed; "
        f"{day.movable} could move; utilisation {load_of(day.setup):.0%} without pauses"
    )
    if day.guessed:
        jobs = counted(day.guessed, "job")
        put(f"the CPU time of {jobs} was not measured and is taken from similar commands")
    if day.span_s < HOUR_S:
        put(f"all came within {duration_text(day.span_s)}: too short a time to stand for a day")
    put()
    ranked = [now, *sorted(results[1:], key=lambda one: -one.gain)]
    print_table(HEADER, [row_of(one, is_now=one is now) for one in ranked])
    put()
    put(*advice(now, best(results), is_short=day.span_s < HOUR_S))


def row_of(one: Finding, *, is_now: bool) -> Row:
    return (
        one.trial.algorithm,
        "as it is now" if is_now else changes(one.trial),
        duration(one.mean_response_s),
        "" if is_now else f"{one.gain:+.1%}",
        "" if is_now else f"{one.gain_ci:.1%}",
        f"{one.transferred:.1%}",
        f"{one.wrong_transfers:.1%}",
        f"{one.messages_per_host_s:.3g}",
        f"{one.overhead:.2%}",
    )


def changes(trial: Trial) -> str:
    return ", ".join(f"{name} {value:.4g}" for name, value in trial.parameters)


def advice(now: Finding, chosen: Finding | None, *, is_short: bool = False) -> list[str]:
    """`is_short`: the jobs do not stand for a day."""
    if chosen is None:
        return [f"nothing tried was clearly better than the current {now.trial.algorithm}"]
    trial = chosen.trial
    more = chosen.messages_per_host_s - now.messages_per_host_s
    cost = f"{abs(more):.2g} {'more' if more >= 0 else 'fewer'} messages per host and second"
    name = f"{trial.algorithm} {changes(trial)}".rstrip()
    found = (
        f"{name} would have saved {chosen.gain:.1%} (± {chosen.gain_ci:.1%}) of the mean response "
        f"time, with {cost}"
    )
    if is_short:
        return [f"{found}; too few hours to judge by: ask again after a day like others"]
    lines = [f"{found}; to use it:"]
    if trial.algorithm != now.trial.algorithm:
        lines.append(f"    lbctl algorithm {trial.algorithm}      # back: lbctl algorithm --reset")
    lines += [f"    lbctl param {key} {value:.6g}" for key, value in trial.parameters]
    return lines


VERBS = {"advise": Verb(reading(advise), add_options, EXAMPLES)}
