"""`lbd lab`: a cluster of real daemons on this one machine."""

import argparse
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from lbd.cli.complaints import Errors, complain
from lbd.cli.lab import experiment_options as lab_experiment_options
from lbd.cli.program import Parser
from lbd.cli.quantities import signal_named
from lbd.config.dispatch import MODES
from lbd.config.load import default_runtime_dir
from lbd.console.output import Page, can_ask, is_agreed, own_page, print_json, put
from lbd.console.reply import Json, table, tables, text, whole
from lbd.errors import ConfigError, LbdError
from lbd.lab import hosts, lab, processes, removal
from lbd.lab.plan import DAEMONS, INSIDE, ISOLATIONS, Plan, host_names
from lbd.lab.record import load, own_place, record_file
from lbd.local.json_socket import ask
from lbd.process.own_directory import make_own
from lbd.text.spelling import hint

Run = Callable[[argparse.Namespace], int]
PARTS = ("lim", "lbm", "dispatcher", "keeper", "host")
OTHERWISE = "the lab whose host this shell acts from, else one lab per user"
ASK_S = 2.0
STORES = ("sqlite:///", "postgresql://", "postgres://")
DESCRIPTION = (
    "a cluster of real daemons on this one machine: hosts h1, h2 … that can be killed and cut off"
)
EXAMPLES = (
    "lbd lab up --hosts 4 --cpus 1     four hosts; root gives each its own namespaces",
    'eval "$(lbd lab env h1)"          lbrun and lbctl now act from h1',
    "lbd lab exec h2 -- lbctl status   one command inside h2",
    "lbd lab kill h3 host              power-off; `lbd lab start h3` brings it back",
    "lbd lab cut h1 h2                 pull the cable between them; `lbd lab heal`",
    "lbd lab experiment                compare the algorithms on live hosts; a few minutes",
    "lbd lab down                      end everything and remove it",
)


def main(argv: list[str]) -> int:
    # So that a lab that is stopped while starting is cleaned up, as after an interrupt.
    for stop in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(stop, lambda signum, _: sys.exit(128 + signum))
    own, command = before_command(argv) if argv[:1] == ["exec"] else (argv, [])
    Errors.as_json = "--json" in own
    options = make_parser().parse_args(own)
    if command:
        options.command = command
    run: Run = options.run
    return run(options)


def before_command(argv: list[str]) -> tuple[list[str], list[str]]:
    """Splits the words of `exec` from the command, which follows the host or --, whatever it is."""
    at, hosts_seen = 1, 0
    while at < len(argv) and argv[at] != "--":
        if argv[at] == "--dir":
            at += 1
        elif not argv[at].startswith("-"):
            if hosts_seen:
                break
            hosts_seen = 1
        elif hosts_seen and argv[at] not in ("-h", "--help") and argv[at][:6] != "--dir=":
            break
        at += 1
    return argv[:at], argv[at:][1:] if argv[at : at + 1] == ["--"] else argv[at:]


def make_parser() -> Parser:
    parser = Parser("lbd lab", DESCRIPTION, EXAMPLES)
    parser.add_version()
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, run: Run, about: str, place: str = OTHERWISE) -> Parser:
        made: Parser = commands.add_parser(name, description=about, help=about)
        made.add_argument("--dir", type=directory, default=None, metavar="DIR",
                          help=f"the lab's directory (default: {place}, under the runtime "
                               "directory)")  # fmt: skip
        made.set_defaults(run=run)
        return made

    about_up = "start the hosts and wait until they see each other"
    add_up_options(command("up", run_up, about_up, "one lab per user"))
    command("env", run_env, "print shell exports to act from a host").add_argument("host")
    inside = command("exec", run_exec, "run a command inside a host")
    inside.add_argument("host")
    inside.add_argument("command", nargs="*", metavar="-- COMMAND")
    kill = command("kill", run_kill, "signal a daemon, its keeper, or power a host off")
    kill.add_argument("host")
    kill.add_argument("part", metavar="PART", help=", ".join(PARTS))
    kill.add_argument("-s", "--signal", default=signal.SIGKILL, type=signal_named, metavar="SIG",
                      help="default: KILL")  # fmt: skip
    start = command("start", run_start, "start what is not running on a host")
    start.add_argument("host")
    start.add_argument(
        "daemon", nargs="?", help="lim, lbm or dispatcher; default: whatever is not running"
    )
    cut = command("cut", run_cut, "cut the connection between two hosts")
    cut.add_argument("a", metavar="HOST")
    cut.add_argument("b", metavar="HOST")
    command("heal", run_heal, "undo every cut")
    status = command("status", run_status, "show hosts, daemons and cuts")
    status.add_argument("--json", action="store_true", help="print one JSON object")
    experiment = command(
        "experiment", run_experiment, lab_experiment_options.ABOUT, "one of its own"
    )
    lab_experiment_options.add_options(experiment)
    down = command("down", run_down, "end all processes of the lab and remove it")
    down.add_argument(
        "--yes", action="store_true", help="do not ask, on a terminal, whether to end what runs"
    )
    return parser


def add_up_options(up: Parser) -> None:
    up.add_argument(
        "--hosts", type=int, default=4, metavar="N", help="number of hosts (default: 4)"
    )
    up.add_argument("--cpus", type=float, metavar="X",
                    help="cores per host (default: with namespaces a share of this machine, else "
                         "all of it)")  # fmt: skip
    up.add_argument("--isolate", choices=ISOLATIONS, default="auto",
                    help="namespaces (root on Linux): each host has its own processes, network "
                         "and CPU quota; none: loopback addresses")  # fmt: skip
    up.add_argument("--private", action="append", default=[], type=existing, metavar="PATH",
                    help="give each host its own empty directory there instead of this machine's "
                         "(namespaces only; repeatable)")  # fmt: skip
    up.add_argument("--tls", action="store_true",
                    help="use certificates between the hosts, as namespaces always do; the "
                         "authority is on h1")  # fmt: skip
    up.add_argument("--algorithm", default="", metavar="A", help="sets lim.algorithm")
    up.add_argument(
        "--mode",
        metavar="M",
        choices=MODES,
        help="sets dispatch.mode, of the queue, which runs on h1 (default: fcfs)",
    )
    up.add_argument(
        "--store",
        metavar="URL",
        help="dispatch.store: sqlite:///a/file (default: in h1's state directory), or "
        "postgresql://…/database, with which every host may lead",
    )
    up.add_argument("--set", action="append", default=[], dest="settings",
                    metavar="SECTION.KEY=VALUE",
                    help="a setting for every host's lbd.toml (repeatable)")  # fmt: skip
    up.add_argument("--host-set", action="append", default=[], dest="host_settings",
                    metavar="HOST:SECTION.KEY=VALUE",
                    help="a setting for one host's lbd.toml (repeatable)")  # fmt: skip


def directory(given: str) -> Path:
    if not given:
        raise argparse.ArgumentTypeError("not a directory name")
    return Path(given).expanduser().resolve()


def existing(given: str) -> Path:
    path = directory(given)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{given}: not a directory")
    return path


def root_of(options: argparse.Namespace) -> Path:
    """Returns the lab's directory. Raises LbdError."""
    given: Path | None = options.dir
    if given is not None:
        return given
    root = acted_from() or own_place("lab")
    if os.environ.get(INSIDE) == str(root):
        raise LbdError(f"this shell is inside a host of the lab in {root}: leave it first (exit)")
    return root


def acted_from() -> Path | None:
    """Returns the lab that `lbd lab env` or `exec` put this process into; None if there is none."""
    if not (given := os.environ.get("LBD_CONFIG")):
        return None
    config = Path(given).absolute()
    root = config.parent.parent
    if not os.path.isfile(record_file(root)):
        return None
    record = load(root)
    is_of_host = record is not None and config in (
        record.plan.paths(host).config for host in record.plan.hosts
    )
    return root if is_of_host else None


def say(line: str) -> None:
    complain("lbd lab", line)


def run_up(options: argparse.Namespace) -> int:
    root = options.dir or own_place("lab")
    plan, remark = lab.make_plan(
        root, options.hosts, options.cpus, options.isolate, options.algorithm,
        (*queue_settings(options.mode, options.store, options.hosts), *options.settings),
        tuple(options.private), options.tls, tuple(options.host_settings),
    )  # fmt: skip
    if remark:
        say(remark)
    shows_dots = sys.stderr.isatty()

    def progress() -> None:
        if shows_dots:
            print(".", end="", file=sys.stderr, flush=True)

    def say_below(line: str) -> None:
        if shows_dots:
            print(file=sys.stderr)
        say(line)

    made_above = not root.parent.exists()
    if options.dir is None:
        make_own(Path(default_runtime_dir()), "--dir")
    try:
        lab.up(plan, say_below, progress, made_above=made_above)
    except (KeyboardInterrupt, SystemExit):
        say_below("interrupted; the lab is removed")
        shows_dots = False
        raise
    finally:
        if shows_dots:
            print(file=sys.stderr)
    each = f", {plan.cores:g} cores each" if plan.cores else ""
    found_without = options.dir is None and acted_from() in (None, root)
    where = "" if found_without else f" --dir {root}"
    hosts_up = f"{len(plan.hosts)} host{'s' if len(plan.hosts) > 1 else ''} up"
    print(f"{hosts_up} in {root} (isolation: {plan.isolate}{each})")
    print(f"act from one:  {way_in(plan, where)}    end:  lbd lab down{where}")
    return 0


def way_in(plan: Plan, where: str) -> str:
    """Returns what to type to act from h1. A shell outside would see this machine's directory where
    each host has a private one."""
    if plan.private:
        return f"lbd lab exec h1{where} -- runuser -u USER bash"
    return f'eval "$(lbd lab env h1{where})"'


def queue_settings(mode: str | None, store: str | None, hosts: int) -> list[str]:
    """Returns settings for the queue. With PostgreSQL each host's dispatcher may lead, else there
    is only one; `--set dispatch.host=` turns it off. Raises ConfigError."""
    given = ["dispatch.host=h1", f"dispatch.mode={mode or MODES[0]}"]
    if store is not None:
        if not store.startswith(STORES):
            raise ConfigError(
                f"--store {store}: must be sqlite:///a/file or postgresql://…/database"
            )
        given.append(f"dispatch.store={json.dumps(store)}")
        if not store.startswith(STORES[0]):
            given.append(f"dispatch.standby={json.dumps(host_names(hosts)[1:])}")
    return given


def run_experiment(options: argparse.Namespace) -> int:
    # imported here, so that other commands start faster
    run: Run = importlib.import_module("lbd.cli.lab.experiment").main
    return run(options)


def run_env(options: argparse.Namespace) -> int:
    record = lab.existing(root_of(options))
    lab.check_host(record, options.host)
    hosts.check_may_enter(record, options.host)
    sys.stdout.write(hosts.env_text(record, options.host))
    return 0


def run_exec(options: argparse.Namespace) -> int:
    command: list[str] = options.command
    if not command:
        raise ConfigError(f"exec {options.host}: no command; give it after the host")
    record = lab.existing(root_of(options))
    lab.check_host(record, options.host)
    enter = str(record.plan.paths(options.host).enter)
    sys.stdout.flush()
    os.execve(enter, [enter, *command], hosts.inside_environment(record, options.host))


def run_kill(options: argparse.Namespace) -> int:
    check_part(options.part, PARTS)
    print(lab.kill(root_of(options), options.host, options.part, options.signal))
    return 0


def run_start(options: argparse.Namespace) -> int:
    if options.daemon is not None:
        check_part(options.daemon, DAEMONS)
    print(lab.start(root_of(options), options.host, options.daemon, say))
    return 0


def check_part(part: str, known: tuple[str, ...]) -> None:
    """Raises ConfigError for an unknown daemon."""
    if part not in known:
        raise ConfigError(f"no part {part!r} of a host; {hint(part, known)}")


def run_cut(options: argparse.Namespace) -> int:
    lab.cut(root_of(options), options.a, options.b, say)
    print(f"{options.a} and {options.b} are cut off from each other")
    return 0


def run_heal(options: argparse.Namespace) -> int:
    count = lab.heal(root_of(options), say)
    print(f"{count} cut{'s' if count != 1 else ''} healed" if count else "nothing was cut")
    return 0


def run_down(options: argparse.Namespace) -> int:
    root = root_of(options)
    acts_from_it = acted_from() == root
    if not (options.yes or agreed(root)):
        print(f"the lab in {root} stays")
        return 1
    print(f"the lab in {root} is removed" if removal.down(root) else f"there is no lab in {root}")
    if os.geteuid():  # root's directory belongs to the system
        with suppress(OSError):  # it is not empty or does not exist
            os.rmdir(default_runtime_dir())
    if acts_from_it:
        print(
            "this shell still acts from one of its hosts: run `unset LBD_CONFIG; hash -r`, or "
            "leave it"
        )
    return 0


def agreed(root: Path) -> bool:
    """Asks the user at the terminal to confirm if commands or jobs would be ended."""
    if not can_ask():
        return True
    running, waiting = at_work(root)
    runs = f"{running} command{'s run' if running != 1 else ' runs'}"
    waits = f"{waiting} job{'s wait' if waiting != 1 else ' waits'}"
    said = [shown for shown, count in ((runs, running), (waits, waiting)) if count]
    if not said:
        return True
    end = "end it" if running + waiting == 1 else "end them"
    return is_agreed(f"lbd lab: {' and '.join(said)} in this lab: {end} and remove the lab?")


def at_work(root: Path) -> tuple[int, int]:
    """Returns how many commands of lbrun run in the lab, and how many jobs wait in its queue, as
    far as its hosts say so."""
    jobs = {one.process.pid: one for one in processes.find(root) if one.part == "job"}
    running = sum(one.parent not in jobs for one in jobs.values())
    with suppress(LbdError):
        record = load(root)
        places = [] if record is None else map(record.plan.paths, record.plan.hosts)
        for place in places:
            with suppress(LbdError):  # a LIM knows only what it was told some seconds ago
                reply = ask(place.socket("lbm"), {"op": "queue.status"}, ASK_S)
                return running, whole(reply, "queued")
    return running, 0


LAB_HEADER = ("HOST", "ADDRESS", "POWER", "LIM", "LBM", "KEEPER", "CUT FROM", "DISPATCHER")
LAB_GO_FIRST = ("ADDRESS", "KEEPER", "POWER", "DISPATCHER", "CUT FROM")


def run_status(options: argparse.Namespace) -> int:
    status = lab.status(root_of(options))
    if options.json:
        print_json(status)
        return 0
    put(*lab_lines(status, own_page()))
    return 0


def lab_lines(status: Json, page: Page) -> list[str]:
    rows = [status_row(row) for row in tables(status, "hosts")]
    return page.table(LAB_HEADER, rows, LAB_GO_FIRST, ("CUT FROM",))


def status_row(row: Json) -> list[str]:
    daemons = table(row, "daemons")
    shown = [text(row, "name"), text(row, "address"), text(row, "power")]
    shown += [daemon_cell(table(daemons, name)) for name in ("lim", "lbm", "keeper")]
    peers = row.get("cut_from")
    shown.append(" ".join(map(str, peers)) if isinstance(peers, list) else "")
    return [*shown, daemon_cell(table(daemons, "dispatcher"))]


def daemon_cell(daemon: Json) -> str:
    """Returns "" if this host should not run the daemon."""
    state = text(daemon, "state")
    return f"{state} {daemon.get('pid')}" if state in ("running", "stopped") else state
