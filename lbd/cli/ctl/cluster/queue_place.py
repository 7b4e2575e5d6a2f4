"""`lbctl queue`: where the cluster's queue runs. Enables and disables it for all hosts at once.

The cluster's settings name the hosts. Disabling closes the queue first: its dispatcher accepts no
more jobs and confirms that, and only then can it be known that no job is left.
"""

import argparse
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lbd.cli.complaints import EXIT_FAILED, taking_back
from lbd.cli.ctl.own_address import refuse_unmounted
from lbd.cli.ctl.steer import FORWARD_TIMEOUT_S, say_missing
from lbd.cli.ctl.verb import Verb, reading, say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.config.cluster import CLOSED, placed, shared_text
from lbd.config.load import load
from lbd.config.schema import Config
from lbd.console.daemons import Daemons
from lbd.console.output import print_json, put
from lbd.console.reply import Json, number, text
from lbd.errors import ConfigError, LbdError, Unavailable
from lbd.lim.core.events import ChangeSettings
from lbd.lim.core.signed import sealed
from lbd.lim.settings_file import SettingsFile, settings_bytes
from lbd.local.json_socket import Refusal
from lbd.model import HostId
from lbd.process import last_words
from lbd.text.dispatcher_phrases import cause_in, waits_for_word, why_silent
from lbd.trust.files import HostFiles, write_private

ABOUT = {
    "enable": "run the dispatcher on this host; with PostgreSQL, on several: one leads, the others "
    "stand by",
    "disable": "remove the queue from the cluster, or from one of several hosts",
}
EXAMPLES = (
    "lbctl queue                     where it runs, and how many jobs it has",
    "lbctl queue enable h2           h2 runs it; nothing else to do on any host",
    "lbctl queue disable --drain     takes no new jobs; off when none are left",
)
ANSWER_S = 2.0
BEGIN_S = 30.0  # for a dispatcher to start, or to confirm that it is closed
WORD_S_MAX = 120.0  # for another host's word (dispatch.confirm_s), which may be waited for longer
POLL_S = 0.2
DISPATCHER = "dispatcher"
DOCTOR = "`lbctl doctor`"
NONE = "this cluster has no queue"


def add_options(parser: Parser) -> None:
    parser.set_defaults(run=show)
    for word, made in parser.subcommands(ABOUT, required=False):
        made.add_argument("--force", action="store_true",
                          help="even if jobs are left in another host's ledger")  # fmt: skip
        if word == "enable":
            made.set_defaults(run=enable)
            made.add_argument("hosts", metavar="HOST[,HOST…]")
        else:
            made.set_defaults(run=disable)
            made.add_argument("host", metavar="HOST", nargs="?", help="only this host of several")
            made.add_argument("--drain", action="store_true",
                              help="take no new jobs, and wait until none are left")  # fmt: skip
            made.add_argument("--timeout", metavar="DUR", type=duration, default=float("inf"),
                              help="how long --drain waits; then exit 1")  # fmt: skip


def queue(options: argparse.Namespace, path: str | None) -> int:
    run: Callable[[Daemons, argparse.Namespace], int] = options.run
    if run is show:
        return reading(show)(options, path)
    return run(Daemons(load(path)), options)


def show(daemons: Daemons, options: argparse.Namespace) -> int:
    hosts, origin = daemons.queue()
    if not hosts:
        daemons.lim({"op": "settings"})  # whether it answers
        refuse_unmounted(daemons.config)
    exit_status, now = 0, Json()
    try:
        now = status(daemons) if hosts else {}
    except LbdError as problem:
        say(problem if DOCTOR in str(problem) else f"{problem}; see {DOCTOR}")
        exit_status = EXIT_FAILED
    if options.json:
        keys = ("mode", "leader", "queued", "running", "closed")
        found = {key: now.get(key) for key in keys}
        print_json({"hosts": list(hosts), "from": origin if hosts else None, **found})
        return exit_status
    if not hosts:
        put(f"{NONE}; `lbctl queue enable HOST` creates one")
        return 0
    put(f"the queue is on {', '.join(hosts)} ({origin})")
    if now:
        closed = "; it takes no new jobs" if now.get("closed") else ""
        leads = f", {text(now, 'leader')} leads" if len(hosts) > 1 else ""
        put(f"{text(now, 'mode')}{leads}, {jobs_phrase(now)}{closed}")
        if full := text(now, "full"):
            put(full)
    return exit_status


def jobs_phrase(now: Json) -> str:
    return f"{int(number(now, 'queued'))} queued, {int(number(now, 'running'))} running"


def status(daemons: Daemons) -> Json:
    """Returns the status of the leading dispatcher. Raises LbdError."""
    try:
        return daemons.lbm({"op": "queue.status"}, ANSWER_S)
    except Unavailable as problem:
        if "did not answer" not in str(problem):
            raise
        # Our LBM answered this late because it waits for the dispatcher.
        where = listed(daemons.queue()[0])
        raise Unavailable(f"no dispatcher on {where} answered within {ANSWER_S:g} s") from None


def left(now: Json) -> int:
    return int(number(now, "queued")) + int(number(now, "running"))


def share(daemons: Daemons, values: dict[str, object]) -> int:
    """Sets values for all hosts; None removes one. Returns the number of hosts. Raises LbdError."""
    reply = daemons.lim({"op": "share", "values": values}, FORWARD_TIMEOUT_S)
    say_missing(reply)
    return int(number(reply, "hosts"))


def check_right(daemons: Daemons) -> None:
    """Raises Refusal for users who may not place the queue, before any advice on it."""
    daemons.lim({"op": "share", "values": {}})


# Enable


def place_on_first_host(config: Config, files: HostFiles, now_s: float) -> None:
    """Writes the setting for this host's LIM to start with and pass on, signed as if by `lbctl`."""
    from lbd.trust.seals import sign

    me, file = HostId(config.host.name), SettingsFile(Path(config.host.state_dir))
    before = file.settings()
    shared = {name: shared_text(name, value) for name, value in placed([me]).items()}
    change = ChangeSettings(None, {}, shared=shared)
    signed = sealed(
        change, before, me, config.cluster.name, now_s, partial(sign, files.read_credentials())
    )
    made = settings_bytes(signed.applied_to(before, me).lasting, files.cluster())
    write_private(file.path, made)


def enable(daemons: Daemons, options: argparse.Namespace) -> int:
    check_right(daemons)
    names = list(dict.fromkeys(filter(None, str(options.hosts).split(","))))
    if not names:
        raise ConfigError("name the host to run the dispatcher on")
    refuse_unmounted(daemons.config)
    if len(names) > 1 and not is_postgres(daemons):
        raise ConfigError(
            "several hosts can run the dispatcher only with dispatch.store = "
            '"postgresql://…" in lbd.toml on each of them'
        )
    now, _ = daemons.queue()
    if now and not options.force:
        if not set(now) & set(names):
            close(daemons, f"the queue is on {now[0]}, and its jobs cannot move")
        elif len(names) > 1 and status(daemons).get("in_file"):
            close(daemons, f"they are in SQLite on {now[0]}, and cannot move to PostgreSQL")
    began_s = time.time()
    hosts = share(daemons, placed(names))
    found, why = begun(daemons, names, began_s)
    later = not found and len(names) == 1 and waits_for_word(why)
    if options.json:
        print_json({"hosts": names, "leader": found.get("leader")})
    elif found:
        soon = "; other hosts know it within 2 s" if hosts > 1 else ""
        said = f"{text(found, 'mode')}, {jobs_phrase(found)}{soon}"
        put(f"the queue is on {listed(names)}: {said}")
    elif later:
        put(f"the queue is on {listed(names)}, which {why_silent(why)}")
    if not (found or later):
        back = "" if not now or set(now) == set(names) else (
            f"; to go back: lbctl queue enable {','.join(now)}")  # fmt: skip
        say(f"the queue is assigned to {listed(names)}, but {no_leader(names, why)}{back}")
    return 0 if found or later else 1


def begun(daemons: Daemons, names: Sequence[str], since_s: float) -> tuple[Json, str]:
    """Returns the status of the queue once one of the hosts leads; or {}, and why its only
    dispatcher, or that of this host, does not. One that waits for another host's word is waited
    for."""
    own, said, told = daemons.config.host, "", ""

    def leads(row: Json) -> bool:
        return text(row, "leader") in names and not row.get("closed")

    def last(after_s: float = 0.0) -> str:
        return last_words.read(own.runtime_dir, DISPATCHER, after_s) if own.name in names else ""

    def trouble(problem: LbdError) -> str:
        nonlocal told
        why = last() if waits_for_word(last()) else last(since_s)
        if own.name not in names:
            why = cause_in(problem, names[0])
        told = why if len(names) == 1 and why != said else ""
        return told

    found = until(daemons, leads, trouble)
    if not found and waits_for_word(told):
        said = told
        say(f"the queue is assigned to {own.name}; its dispatcher {why_silent(said)}")
        found = until(daemons, leads, trouble, min(daemons.config.dispatch.confirm_s, WORD_S_MAX))
    return found, last() or told


def no_leader(names: Sequence[str], why: str) -> str:
    """`why`: what keeps the only dispatcher silent, or that of this host; "" if nothing is
    known."""
    if why and len(names) == 1:
        return f"its dispatcher {why_silent(why)}"
    where = names[0] if len(names) == 1 else "one of them"
    here = f"; the dispatcher here {why_silent(why)}" if why else ""
    return f"no dispatcher answered within {BEGIN_S:.0f} s; on {where}: {START}{here}"


START = (
    "is `lbd up` running? With the package: `systemctl start lbd-dispatcher.path lbd-dispatcher`; "
    "see the dispatcher's log"
)


def until(
    daemons: Daemons,
    condition: Callable[[Json], bool],
    trouble: Callable[[LbdError], str] = lambda _: "",
    more_s: float = 0.0,
) -> Json:
    """Returns the dispatcher's status once the condition holds; {} after a timeout, or as soon as
    `trouble` says that it cannot come about."""
    give_up_s = time.monotonic() + BEGIN_S + more_s
    while time.monotonic() < give_up_s:
        try:
            if condition(found := status(daemons)):
                return found
        except LbdError as problem:
            if trouble(problem):
                return {}
        time.sleep(POLL_S)
    return {}


# Disable


def disable(daemons: Daemons, options: argparse.Namespace) -> int:
    check_right(daemons)
    hosts, _ = daemons.queue()
    if not hosts:
        return done(options, [], NONE)
    if options.host is not None:
        if options.host not in hosts:
            raise ConfigError(f"{options.host} does not run the queue: it is on {listed(hosts)}")
        if others := [host for host in hosts if host != options.host]:
            share(daemons, placed(others))
            return done(options, others, f"the queue is on {listed(others)}")
    where = kept_in(daemons, hosts[0])
    if options.force:
        share(daemons, placed(()))
        return done(options, [], f"the queue is disabled; its ledger remains {where}")
    wait_s = options.timeout if options.drain else None
    close(daemons, WAITS, wait_s)
    share(daemons, placed(()))
    return done(options, [], f"the queue is disabled; ended jobs remain in its ledger {where}")


def kept_in(daemons: Daemons, host: str) -> str:
    """Returns where the ledger of the queue on `host` is. Asks the dispatcher, because lbd.toml may
    have changed since it started."""
    in_file = not is_postgres(daemons)
    with contextlib.suppress(LbdError):
        in_file = bool(status(daemons).get("in_file", in_file))
    return f"on {host}" if in_file else "in PostgreSQL"


def is_postgres(daemons: Daemons) -> bool:
    return daemons.config.dispatch.in_postgres


WAITS = (
    "`lbctl queue disable --drain` waits for them (held jobs must be released or killed); --force "
    "leaves them in the ledger"
)


def done(options: argparse.Namespace, hosts: Sequence[str], said: str) -> int:
    if options.json:
        print_json({"hosts": list(hosts), "leader": None})
    else:
        put(said)
    return 0


def listed(hosts: Sequence[str]) -> str:
    return ", ".join(hosts)


def until_empty(daemons: Daemons, wait_s: float) -> Json:
    """Returns the dispatcher's status once no job or time is left; {} if it does not close."""
    now = until(daemons, lambda row: bool(row.get("closed")))
    give_up_s = time.monotonic() + wait_s
    if now and wait_s:
        say(f"no new jobs accepted; {jobs_phrase(now)}")
    while now and left(now) and time.monotonic() < give_up_s:
        time.sleep(POLL_S)
        now = patiently(daemons, now)
    return now


def close(daemons: Daemons, advice: str, wait_s: float | None = None) -> None:
    """Closes the queue and waits up to `wait_s` until no job is left. None refuses at once if there
    are jobs. After a timeout or an interruption it opens the queue again. Raises LbdError."""
    try:
        now = status(daemons)
    except LbdError as problem:
        raise Unavailable(
            f"{problem}; jobs may be waiting there: --force leaves them in its ledger"
        ) from None
    if wait_s is None:
        refuse_if_left(now, advice)
    with taking_back():
        try:
            share(daemons, {CLOSED: True})
            now = until_empty(daemons, wait_s or 0.0)
        except BaseException:  # signals as well: a queue left closed would refuse all jobs
            share(daemons, {CLOSED: None})
            raise
    if now and not left(now):
        return
    share(daemons, {CLOSED: None})
    if not now:
        raise Unavailable(
            f"the dispatcher did not close the queue within {BEGIN_S:.0f} s; the queue stays open"
        )
    refuse_if_left(now, "the queue stays open" if wait_s else advice)


def patiently(daemons: Daemons, before: Json) -> Json:
    """Returns the status, or the previous one if the dispatcher does not answer now."""
    try:
        return status(daemons)
    except LbdError:
        return before


def refuse_if_left(now: Json, advice: str) -> None:
    """Raises Refusal."""
    if left(now):
        raise Refusal(f"the queue has jobs: {jobs_phrase(now)}; {advice}", "unavailable")


VERBS = {"queue": Verb(queue, add_options, EXAMPLES, own_options=True)}
