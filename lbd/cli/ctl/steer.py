"""Commands that change the cluster: `lbctl drain, undrain, reload, algorithm, param`."""

import argparse
import time
from collections.abc import Sequence

from lbd.cli.ctl.own_config import after
from lbd.cli.ctl.startable import warn_of_rules
from lbd.cli.ctl.verb import Verb, asking, say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration
from lbd.config.load import toml_value
from lbd.console.daemons import Daemons
from lbd.console.figures import Clock
from lbd.console.hosts import drain_phrase, host_named
from lbd.console.output import print_json, print_table, put
from lbd.console.parameters import as_json, fetch_all, shown
from lbd.console.reply import Json, number, table, text, texts, whole
from lbd.errors import ConfigError, Unavailable
from lbd.model import STOPPED
from lbd.text.units import counted

FORWARD_TIMEOUT_S = 10.0  # the answer comes after another host has confirmed the change
POLL_S = 0.5
SILENT_S = 2.0  # then it says what it waits for
UNKNOWN_S = 30.0  # so long it may be unknown what runs on a host, as when daemons are restarted
SAVED_LATER = "tried again until it is; a restart of the LIM here before that may undo it"
UNTIL = "on trial until --reset, or until no LIM of the cluster runs any more"
MISSING_SHOWN = 10  # hosts named in the message


def add_host(parser: Parser) -> None:
    parser.add_argument("host", metavar="HOST")


def add_drain_options(parser: Parser) -> None:
    add_host(parser)
    parser.add_argument("--reason", metavar="TEXT", default="",
                        help="why; `lbctl status` shows it, with who drained the host and "
                             "when")  # fmt: skip
    parser.add_argument(
        "--wait",
        action="store_true",
        help="wait until no job of the queue or of another host is left there",
    )
    parser.add_argument("--timeout", metavar="DUR", type=duration, default=float("inf"),
                        help="how long to wait; then exit 1")  # fmt: skip


def add_algorithm(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?")
    add_keeping(parser)


def add_keeping(parser: Parser) -> None:
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--save", action="store_true",
                        help="keep the value across restarts of all daemons; without a value, keep "
                             "the one in force")  # fmt: skip
    either.add_argument("--reset", action="store_true",
                        help="end a trial: the saved value applies again; if there is no "
                             "trial, drop the saved value, so that each host's own lbd.toml "
                             "does")  # fmt: skip


def keeping(options: argparse.Namespace, given: object) -> Json:
    """Returns the fields of a change besides its value. Raises ConfigError."""
    if options.reset and given is not None:
        raise ConfigError("--reset takes no value: it goes back to the saved one, or to lbd.toml")
    whole = {"whole": True} if options.reset and getattr(options, "unset", False) else {}
    return {"save": options.save, "reset": options.reset, **whole}


def add_param(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="lim.min_gain or min_gain")
    parser.add_argument("value", metavar="VALUE", nargs="?",
                        help="if omitted, the value in force is shown")  # fmt: skip
    add_keeping(parser)


def drain(daemons: Daemons, options: argparse.Namespace) -> int:
    """Stops new jobs on the host; --wait waits until none of the queue or of another host is left
    there."""
    host: str = options.host
    request: Json = {"op": "drain", "host": host, "drained": True, "reason": options.reason}
    reply = daemons.lim(request, FORWARD_TIMEOUT_S)
    say_unsaved(reply)
    before = table(reply, "before")
    if text(before, "by") and not options.json:
        said = drain_phrase(before, Clock(time.time()))
        new = f"; the reason is now: {options.reason}" if options.reason else ""
        say(f"{host} was {said.replace('drained', 'already drained', 1)}{new}")
    is_waited = options.wait and not reply.get("when_back")
    left, typed = empty_or_not(daemons, host, options.timeout) if is_waited else (0, 0)
    if options.json:
        print_json({"host": host, "drained": True, **({"jobs_left": left} if options.wait else {})})
        return 0 if left == 0 else 1
    if reply.get("when_back"):
        put(
            f"{host} does not answer: nothing is sent there, and it will be drained when it is back"
        )
    elif left is None:
        why = f"what runs there is not known: {host} does not say"
        if is_stopped(row_of(daemons, host)):
            why = "was stopped before it was known to be empty"
        put(f"{host} is drained, but {why}")
    elif left:
        put(f"{host} is drained; {jobs_there(left)} still {'runs' if left == 1 else 'run'} there")
    elif typed:
        run = "1 command that was typed on it still runs"
        if typed > 1:
            run = f"{typed} commands that were typed on it still run"
        put(f"{host} is drained, and no {OF_OTHERS} is left there; "
            f"{run}, there or elsewhere ({shown_by(host)}); "
            "what lbsh keeps there is seen only by `ps`")  # fmt: skip
    else:
        put(f"{host} is drained" + (" and empty" if options.wait else ": it gets no new jobs"))
    return 0 if left == 0 else 1


def is_stopped(row: Json) -> bool:
    return text(row, "state") == "down" and text(row, "why_down").startswith(STOPPED)


OF_OTHERS = "job of the queue or of another host"


def jobs_there(left: int) -> str:
    return f"1 {OF_OTHERS}" if left == 1 else f"{left} jobs of the queue or of other hosts"


def shown_by(host: str, only: str = "") -> str:
    """Returns the command that lists all that is meant. Elsewhere commands typed on the host are
    hidden, unless its admin.hosts names the other one."""
    return f"lbctl jobs{only}, as root on {host}"


def empty_or_not(daemons: Daemons, host: str, timeout_s: float) -> tuple[int | None, int]:
    """Like `wait_until_empty`; if that is interrupted, says that the drain is not."""
    try:
        return wait_until_empty(daemons, host, timeout_s)
    except KeyboardInterrupt:
        say(f"stopped waiting; {host} stays drained until `lbctl undrain {host}`")
        raise


def wait_until_empty(daemons: Daemons, host: str, timeout_s: float) -> tuple[int | None, int]:
    """Returns how many jobs of the queue or of other hosts are left there when none is or the time
    is up, None if that has not been known for a while; and how many commands typed there run, which
    are not waited for."""
    drained_s = known_s = time.monotonic()
    said = said_stopped = False
    while True:
        row = row_of(daemons, host)
        now_s = time.monotonic()
        left, typed = (whole(table(row, "jobs"), kind) for kind in ("foreign", "local"))
        waited_s = now_s - drained_s
        if text(row, "state") not in ("down", "") and row.get("jobs_known", True):
            known_s = now_s
            # A sample from before the drain proves nothing: a job may have started since.
            if (left == 0 and number(row, "age_s") < waited_s) or waited_s > timeout_s:
                return left, typed
        elif now_s - known_s > min(UNKNOWN_S, timeout_s):
            return None, 0
        elif is_stopped(row) and now_s - known_s > SILENT_S and not said_stopped:
            said_stopped = True
            say(f"{host} was stopped: unless its daemons are only restarted, what runs there ends; "
                f"waiting up to {UNKNOWN_S:g} s for them")  # fmt: skip
        if left and waited_s > SILENT_S and not said:
            said = True
            say(f"{host} is drained; waiting for {jobs_there(left)} there: "
                f"{shown_by(host, f' --host {host}')}")  # fmt: skip
        time.sleep(POLL_S)


def row_of(daemons: Daemons, host: str) -> Json:
    """Returns what the LIM here says of a host; {} while it is restarted, or has not heard of it
    since."""
    try:
        return host_named(daemons.lim({"op": "status"}), host)
    except Unavailable:
        return {}


def undrain(daemons: Daemons, options: argparse.Namespace) -> int:
    host: str = options.host
    request: Json = {"op": "drain", "host": host, "drained": False}
    reply = daemons.lim(request, FORWARD_TIMEOUT_S)
    say_unsaved(reply)
    if options.json:
        print_json({"host": host, "drained": False})
    elif not reply.get("was_drained"):
        put(f"{host} was not drained")
    else:
        put(f"{host} takes jobs again" + (" when it is back" if reply.get("when_back") else ""))
    return 0


def reload(daemons: Daemons, options: argparse.Namespace) -> int:
    later = texts(daemons.lbm({"op": "reload"}), "needs_restart")
    if later:  # what is set for all hosts instead is in force
        overruled = {**daemons.saved(), **daemons.on_trial()}
        later = [name for name in later if name not in overruled]
    if options.json:
        print_json({"reloaded": True, "needs_restart": later})
        return 0
    put("the owner's rules have been reloaded")
    warn_of_rules(daemons.config)
    when = {name: after(name, daemons) for name in later}
    for each in dict.fromkeys(when.values()):
        names = ", ".join(name for name in later if when[name] == each)
        put(f"not in force yet: {names}: takes effect {each}")
    return 0


def algorithm(daemons: Daemons, options: argparse.Namespace) -> int:
    request: Json = {"op": "algorithm", **keeping(options, options.name)}
    if options.name:
        request["name"] = options.name
    reply = daemons.lim(request)
    if options.json:
        print_json(reply)
    else:
        put(text(reply, "algorithm"))
        change = changed("algorithm", text(reply, "was"), text(reply, "algorithm"))
        say_where(options, reply, "lim.algorithm", change, text(reply, "saved"))
    return 0


def changed(name: str, was: str, now: str) -> str:
    return f"{name} {was} → {now}" if was != now else f"{name} was already {now}"


def say_where(options: argparse.Namespace, reply: Json, name: str, change: str, saved: str) -> None:
    """Says on how many hosts a change is in force and for how long, if anything was changed."""
    if "hosts" not in reply:
        return
    if reply.get("trial_ended"):
        lasts = f"the trial has ended and the saved {saved} applies; --reset again drops that, too"
    elif options.reset:
        lasts = f"each host's lbd.toml applies to {name} again"
        if dropped := shown(reply, "dropped"):
            lasts = f"the saved {dropped} is dropped: {lasts}"
    elif options.save:
        unsaved, hosts = text(reply, "unsaved"), int(number(reply, "hosts"))
        lasts = "saved, so it survives restarts"
        if unsaved:
            on = f"saved on {int(number(reply, 'changed')) - 1} of {counted(hosts, 'host')}"
            lasts = f"{on}; not on this one: {unsaved}; {SAVED_LATER}"
    elif saved:
        lasts = f"{UNTIL}; then the saved {saved} applies"
    else:
        lasts = f"{UNTIL}; --save keeps it"
    say(f"{change} {where(reply)}; {lasts}")
    say_missing({**reply, "unsaved": ""} if options.save else reply)


def where(reply: Json) -> str:
    """Returns on how many hosts a change is in force."""
    hosts, changed = int(number(reply, "hosts")), int(number(reply, "changed"))
    return f"on {changed} of {counted(hosts, 'host')}"


def say_missing(reply: Json) -> None:
    """Names the hosts that have not confirmed a change, or not saved it."""
    say_unsaved(reply)
    down = texts(reply, "down")
    if silent := [name for name in texts(reply, "missing") if name not in down]:
        said = f"not confirmed by {few(silent)}: they will take it when they are heard again"
        say(said)
    if len(down) == 1:
        say(f"{down[0]} has not confirmed yet; it learns of it as soon as it is heard")
    elif down:
        said = "have not confirmed yet; they learn of it as soon as they are heard"
        say(f"{few(down)} {said}")


def say_unsaved(reply: Json) -> None:
    if why := text(reply, "unsaved"):
        say(f"not saved on this host: {why}; {SAVED_LATER}")


def few(names: Sequence[str]) -> str:
    return ", ".join(names[:MISSING_SHOWN]) + (", …" if names[MISSING_SHOWN:] else "")


def param(daemons: Daemons, options: argparse.Namespace) -> int:
    """Shows every parameter, shows one, or changes one on the whole cluster."""
    if options.name is None:
        if options.save or options.reset:
            raise ConfigError("--save and --reset need the name of a parameter")
        return all_params(daemons, options)
    request: Json = {"op": "param", "name": options.name, **keeping(options, options.value)}
    if options.value is not None:
        request["value"] = toml_value(options.value)
    reply = daemons.lim(request)
    if options.json:
        print_json(reply)
    else:
        name, value = text(reply, "name"), shown(reply, "value")
        if "as_set" in reply:
            notice = (
                f"{name} is set to {shown(reply, 'as_set')}; lim.adaptive adjusts it with the load"
            )
            say(notice)
        put(f"{name} = {value}")
        now = shown(reply, "as_set" if "as_set" in reply else "value")
        change = changed(name, shown(reply, "was"), now)
        say_where(options, reply, name, change, shown(reply, "saved"))
    return 0


def all_params(daemons: Daemons, options: argparse.Namespace) -> int:
    """Shows every parameter that can be changed at run time."""
    replies = fetch_all(daemons)
    if options.json:
        print_json(as_json(replies))
    else:
        rows = [(text(one, "name"), shown(one, "value"), shown(one, "saved")) for one in replies]
        header = ("PARAMETER", ">VALUE", ">SAVED")
        none_saved = not any(saved for _, _, saved in rows)
        print_table(
            header[:2] if none_saved else header, [row[:2] if none_saved else row for row in rows]
        )
    return 0


VERBS = {
    "drain": Verb(asking(drain), add_drain_options),
    "undrain": Verb(asking(undrain), add_host),
    "reload": Verb(asking(reload)),
    "algorithm": Verb(asking(algorithm), add_algorithm),
    "param": Verb(asking(param), add_param),
}
