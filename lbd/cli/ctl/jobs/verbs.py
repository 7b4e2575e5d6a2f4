"""`lbctl job, logs, wait, kill, hold, release, requeue, update`: for any id that `jobs` prints.

queued_jobs.py and logs.py handle queued jobs, plain_commands.py handles plain `lbrun` commands; a
list of both gets a single answer.
"""

import argparse
import contextlib
import os
import re
import signal
import time
from collections.abc import Sequence
from datetime import datetime

from lbd.cli.complaints import EXIT_FAILED
from lbd.cli.ctl.jobs import logs as queued_logs
from lbd.cli.ctl.jobs import queued_jobs, wait_for
from lbd.cli.ctl.jobs.arrays import add_requeue_options, add_update_options, change_of
from lbd.cli.ctl.jobs.filters import add_filters
from lbd.cli.ctl.jobs.listing import head_of, hidden_lines
from lbd.cli.ctl.verb import Run, Verb, asking, reading, say
from lbd.cli.program import Parser, add_utc
from lbd.cli.quantities import signal_named
from lbd.console import plain_commands
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.job_acts import Acted, act, check_ids
from lbd.console.job_details import attempt_row
from lbd.console.jobs import (
    ANSWER_S,
    PENDING,
    STATES,
    Filters,
    counts_of,
    fetch,
    states_of,
    unknown_host,
)
from lbd.console.output import can_ask, is_agreed, own_page, print_json, put, wrapped
from lbd.console.reply import Json, number, table, tables, text, texts
from lbd.errors import ConfigError, LbdError
from lbd.lbm.owner.accounts import user_name
from lbd.model import ENDED_NAMES
from lbd.text.index_list import runs_in, runs_text
from lbd.text.job_phrases import HELD

PLAIN_INDENT = 11  # of the lines about a plain command
ALL_QUEUED = "@me"  # all queued jobs of the caller
SIGNAL = re.compile(r"-[0-9]+")  # as kill(1) takes it
WRITTEN_OUT = 10  # so many tasks are named one by one rather than in steps
ASKED_FROM = 6  # ending this many jobs and tasks or more needs a confirmation


def job(daemons: Daemons, options: argparse.Namespace) -> int:
    queued, named = plain_commands.split(options.ids)
    of_queue, absent, others = list[Json](), list[str](), ""
    if queued:
        check_ids(queued)
        of_queue, absent, others = queued_jobs.with_attempts(daemons, queued)
        of_queue = queued_jobs.each_in_full(daemons, of_queue)
    found, no_plain = plain_commands.those_there(daemons, named, several=len(options.ids) > 1)
    absent += no_plain
    for why in absent:
        say(why)
    status = EXIT_FAILED if absent else 0
    if options.json:
        every = of_queue + found
        print_json(every[0] if len(every) == 1 and len(options.ids) == 1 else every)
        if others:
            say(others)
        return status
    of_queue = queued_jobs.with_lost_outputs(daemons, of_queue)
    page, clock = own_page(), Clock(time.time(), options.utc)
    queued_jobs.show(queued_jobs.without_tiers(daemons, of_queue), clock, page)
    for at, one in enumerate(found):
        if at or of_queue:
            put("")
        put(*head_of(one, clock, page, PLAIN_INDENT))
        for line in plain_commands.details(one, clock):
            put(*wrapped(line, page.columns, " " * PLAIN_INDENT))
        rows = [attempt_row(attempt, clock) for attempt in plain_commands.attempts_of(one)]
        if rows:
            put(
                "",
                *page.table(queued_jobs.ATTEMPTS, rows, queued_jobs.ATTEMPTS_GO_FIRST, ("REASON",)),
            )
    if others:
        say(others)
    return status


def logs(daemons: Daemons, options: argparse.Namespace) -> int:
    if options.others:
        raise ConfigError(
            "output is shown for one job at a time: name one, or tasks of one array, as 12_[3,7]"
        )
    if options.daemons:
        return daemon_lines(daemons, options)
    if not plain_commands.is_plain(options.ids[0]):
        if options.json:
            print_json(queued_logs.output_json(daemons, options))
            return 0
        return queued_logs.logs(daemons, options)
    found = plain_commands.shown(daemons, options.ids[0])
    never = plain_commands.why_never_ran(found)
    where = never or plain_commands.where_its_output_went(found)
    if options.json:
        print_json({"id": found.get("id"), "kept": False, "origin": found.get("origin"),
                    "message": where})  # fmt: skip
    else:
        say(where)
    return EXIT_FAILED if never else 0


def daemon_lines(daemons: Daemons, options: argparse.Namespace) -> int:
    """Shows what the daemons of all hosts logged about one job."""
    (name,) = options.ids
    if options.follow or options.failed or options.attempt is not None:
        raise ConfigError("--daemons covers all attempts until now: it takes neither -f, --attempt "
                          "nor --failed")  # fmt: skip
    kind = "command" if plain_commands.is_plain(name) else "queue"
    reply = daemons.lbm({"op": f"{kind}.lines", "id": name}, ANSWER_S)
    job, missing, withheld = text(reply, "job"), table(reply, "missing"), table(reply, "withheld")
    if options.json:
        print_json({"id": job, **{key: reply[key] for key in reply if key != "job"}})
    else:
        for line in tables(reply, "lines"):
            put(line_text(line, job))
        if reply.get("more"):
            say("earlier lines have been dropped")
        if not tables(reply, "lines"):
            say(f"no daemon has any lines about job {job}")
    if missing:
        named = ", ".join(f"{host} ({text(missing, host)})" for host in missing)
        say(f"lines of these daemons are missing: {named}")
    for host in withheld:
        say(f"{host} does not show its lines here ({text(withheld, host)} there)")
    return 0


def line_text(line: Json, job: str) -> str:
    """Formats a log line, naming its job if it is not the one asked about."""
    at = datetime.fromtimestamp(number(line, "time")).isoformat(" ", "milliseconds")
    of = text(line, "job")
    about = f"job {of}: " if of != job else ""
    where = f"{text(line, 'host')} {text(line, 'daemon')}"
    return f"{at} {where} {text(line, 'level')}: {about}{text(line, 'text')}"


def kill(daemons: Daemons, options: argparse.Namespace) -> int:
    chosen = selected(daemons, options, "end")
    if chosen is None:
        return EXIT_FAILED
    done = act(daemons, chosen, "kill", signal=options.signal)
    code = report(done, options, what_was_done(options.signal))
    if ALL_QUEUED in chosen and not options.json:
        mention_plain(daemons)
    return code


def selected(daemons: Daemons, options: argparse.Namespace, does: str) -> list[str] | None:
    """Returns the ids to act on, as given or found by the filters; None if the user says no.
    `does`: what is done with them, for the question. Raises LbdError."""
    ids, filters = list(options.ids), Filters.of(options)
    if filters == Filters():
        if not ids:
            raise ConfigError("which jobs? Give an ID, --name, --user, --state or --host")
        number = next((one for one in ids if SIGNAL.fullmatch(one)), "")
        if number and does == "end":
            raise ConfigError(f"{number!r} is not an id; for a signal, write -s {number[1:]}")
        return ids
    jobs = matching(daemons, ids, filters)
    if does != "end":
        jobs = [one for one in jobs if may_wait(one)]
    if not (jobs or options.json):
        say(unknown_host(daemons, filters.host) or f"none of the jobs that you may {does} matches")
    if not (options.yes or agreed(jobs, does)):
        say("nothing was done")
        return None
    return [text(one, "id") for one in jobs]


def may_wait(job: Json) -> bool:
    """Whether a job is in the queue, or one of its tasks; only those are held and released."""
    return not plain_commands.is_plain(text(job, "id")) and "pending" in states_of(job)


def what_was_done(number: int) -> str:
    """`number`: the signal asked for; 0: none, so the job is ended."""
    if number in (0, signal.SIGKILL):
        return "killed"
    return f"sent {signal.Signals(number).name} to"


def mention_plain(daemons: Daemons) -> None:
    """Names the caller's plain commands, which go on because @me does not include them."""
    user = user_name(os.getuid())
    with contextlib.suppress(LbdError):
        found = (text(one, "id") for one in matching(daemons, [], Filters(user=user)))
        plain = [*filter(plain_commands.is_plain, found)]
        if plain:
            some = "1 plain command of yours runs", "it"
            if len(plain) > 1:
                some = f"{len(plain)} plain commands of yours run", "them"
            names = in_ranges(plain[:ASKED_FROM]) + (" …" if plain[ASKED_FROM:] else "")
            how = f"`lbctl kill --user {user}` ends {some[1]} as well"
            say(f"{some[0]} on: {names}; {how}")


def matching(daemons: Daemons, ids: list[str], filters: Filters) -> list[Json]:
    """Returns the jobs that have not ended and pass the filters; with `ids`, only those of them.
    Raises LbdError."""
    reply = fetch(daemons, ended_too=False)
    if missing := texts(reply, "missing"):
        say(
            f"jobs of these hosts are missing, since they did not answer: {', '.join(missing)}",
        )
    for line in hidden_lines(reply):
        say(line)
    found = [one for one in tables(reply, "jobs")
             if text(one, "state") not in ENDED_NAMES and filters.keeps(one)]  # fmt: skip
    if not ids:
        return found
    queued, named = plain_commands.split(ids)
    wanted = set(named)
    if queued:
        check_ids(queued)
        asked: Json = {"op": "queue.jobs", "ids": queued, "foretold": False}
        wanted |= {text(one, "id") for one in tables(daemons.lbm(asked, ANSWER_S), "jobs")}
    return [one for one in found if text(one, "id") in wanted]


def agreed(jobs: list[Json], does: str) -> bool:
    """Asks the user at the terminal to confirm if there are many jobs, or many tasks in them."""
    tasks = sum(tasks_concerned(one, does) for one in jobs)
    if tasks < ASKED_FROM or not can_ask():
        return True
    names = [text(one, "name") for one in jobs]
    labels = [name if name and names.count(name) == 1 else text(one, "id")
              for one, name in zip(jobs[:ASKED_FROM], names, strict=False)]  # fmt: skip
    shown = ", ".join(labels) + (" …" if len(jobs) > ASKED_FROM else "")
    some = "1 job" if len(jobs) == 1 else f"{len(jobs)} jobs"
    in_all = f", {tasks} tasks in all" if tasks > len(jobs) else ""
    return is_agreed(f"lbctl: {does} {some}{in_all} ({shown})?")


def tasks_concerned(job: Json, does: str) -> int:
    """Returns how many tasks of an array this is done with; 1 for another job."""
    counts = counts_of(job) if job.get("array") else {}
    states = {"end": counts.keys() - ENDED_NAMES, "hold": {PENDING}, "release": {HELD}}[does]
    return max(1, sum(counts.get(state, 0) for state in states))


def requeue(daemons: Daemons, options: argparse.Namespace) -> int:
    order: Json = {"verb": "requeue-failed"} if options.failed else {}
    done = act(daemons, options.ids, "requeue", order)
    ids = [text(one, "id") for one in done.results if one.get("ok")]
    what = "tasks" if all("_" in one for one in ids) else "jobs"
    count = f" {len(ids)} {what}," if len(ids) > 1 else ""
    return report(done, options, f"queued again:{count}")


def update(daemons: Daemons, options: argparse.Namespace) -> int:
    done = act(daemons, options.ids, "update", {"update": change_of(options)})
    return report(done, options, "changed")


def report(done: Acted, options: argparse.Namespace, did: str) -> int:
    if options.json:
        print_json(done.results)
    else:
        acted: dict[tuple[str, str], list[str]] = {}
        for one in done.results:
            if one.get("ok"):
                later = text(one, "still_open")
                what = "not ended yet:" if later else "not held:" if one.get("not_held") else did
                acted.setdefault((later, what), []).append(text(one, "id"))
        for (later, what), ids in sorted(acted.items()):
            put("; ".join(filter(None, (f"{what} {in_ranges(ids)}", later))))
        for error in done.errors:
            say(error)
    return EXIT_FAILED if done.errors else 0


def in_ranges(ids: list[str]) -> str:
    """Formats 3, 4, 5 and h1-2 as 3-5, h1-2; tasks of an array, 12_7 and 12_8, as 12_[7-8]."""
    parts: list[str] = []
    tasks: dict[str, list[int]] = {}
    first = last = -2
    for name in ids:
        array, is_task, index = name.partition("_")
        if is_task and array.isdecimal() and index.isdecimal():
            tasks.setdefault(array, []).append(int(index))
            continue
        if not name.isdecimal():
            parts.append(name)
            first = last = -2
        elif int(name) == last + 1:
            last += 1
            parts[-1] = f"{first}-{last}"
        else:
            first = last = int(name)
            parts.append(name)
    for array, indexes in tasks.items():
        runs = runs_text(runs_in(sorted(indexes)))
        if ":" in runs and len(indexes) <= WRITTEN_OUT:
            runs = ",".join(map(str, sorted(indexes)))
        parts.append(f"{array}_[{runs}]" if len(indexes) > 1 else f"{array}_{runs}")
    return ", ".join(parts)


def acting(verb: str, did: str) -> Run:
    def run(daemons: Daemons, options: argparse.Namespace) -> int:
        chosen = selected(daemons, options, verb)
        return EXIT_FAILED if chosen is None else report(act(daemons, chosen, verb), options, did)

    return asking(run)


def add_job_options(parser: Parser) -> None:
    add_utc(parser)
    queued_jobs.add_ids(parser)


def add_kill_options(parser: Parser) -> None:
    parser.add_argument("-s", "--signal", metavar="SIG", type=signal_named, default=0,
                        help="send only this signal (default: TERM, then KILL)")  # fmt: skip
    add_selection(parser)
    parser.add_argument("ids", metavar="ID", nargs="*",
                        help="3, 2-5, 12_7, 12_[3-5], last, @me, h1-26")  # fmt: skip


def add_selection(parser: Parser, states: Sequence[str] = STATES) -> None:
    add_filters(parser, states)
    parser.add_argument("--yes", action="store_true", help="do not ask, however many there are")


def add_hold_options(parser: Parser) -> None:
    add_selection(parser, (*STATES, HELD))
    parser.add_argument("ids", metavar="ID", nargs="*",
                        help="3, 2-5, 12_7, 12_[3-5], last, @me")  # fmt: skip


KILL_EXAMPLES = (
    "lbctl kill 12 h1-26                   a queued job and a plain lbrun",
    "lbctl kill --name 'night-*' --yes     all jobs of that name, without asking",
    "lbctl kill -s USR1 h1-26              only this signal",
)
VERBS = {
    "job": Verb(reading(job), add_job_options),
    "logs": Verb(reading(logs), queued_logs.add_logs_options, (
        "lbctl logs -f 12                 follow job 12 until it ends",
        "lbctl logs 12_[3-5]              the outputs of these tasks of array 12, in order",
        "lbctl logs --failed 12           the outputs of array 12's failed tasks",
        "lbctl logs --daemons h1-26       what the daemons did with it, and when",
    )),
    "wait": Verb(reading(wait_for.wait), queued_jobs.add_wait_options),
    "kill": Verb(asking(kill), add_kill_options, KILL_EXAMPLES),
    "hold": Verb(acting("hold", "held"), add_hold_options, (
        "lbctl hold '12_[200-300]'        these tasks, if they have not started",
        "lbctl hold --name 'night-*'      all waiting jobs of that name",
    )),
    "release": Verb(acting("release", "released"), add_hold_options, (
        "lbctl release --name 'night-*'   all held jobs of that name",
    )),
    "requeue": Verb(asking(requeue), add_requeue_options, (
        "lbctl requeue 12                 all of job 12 again from the start, also what is done",
        "lbctl requeue --failed 12        the tasks of array 12 that failed",
    )),
    "update": Verb(asking(update), add_update_options, (
        "lbctl update 12 --priority 5     start job 12 before jobs of lower priority",
    )),
}  # fmt: skip
