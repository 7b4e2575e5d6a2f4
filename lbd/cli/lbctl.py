"""`lbctl`: look at the cluster and steer it. Data goes to stdout, everything else to stderr."""

import argparse
import importlib
import sys
from collections.abc import Callable

from lbd.cli.daemons import Daemons
from lbd.cli.program import Parser, guard
from lbd.cli.quantities import duration
from lbd.config_file import load
from lbd.errors import ConfigError
from lbd.spelling import hint

Command = Callable[[Daemons, argparse.Namespace], int]

# Name: the module that does it, and what it does.
COMMANDS = {
    "status": ("lbctl_status", "cluster, algorithm, load information centre, a line per host"),
    "top": ("lbctl_top", "the same, live, with the jobs; q ends it"),
    "jobs": ("lbctl_jobs", "what runs now; --all: and what ended recently"),
    "job": ("lbctl_queue", "a queued job with each of its attempts"),
    "logs": ("lbctl_queue", "what a queued job has printed; -f: and prints"),
    "predict": ("lbctl_queue", "how long a job would wait in the queue that came now"),
    "wait": ("lbctl_queue", "until queued jobs have ended: 0 all well, 1 not all, 2 no answer"),
    "kill": ("lbctl_queue", "end queued jobs, or send them a signal"),
    "hold": ("lbctl_queue", "keep pending jobs from starting"),
    "release": ("lbctl_queue", "let held jobs go on"),
    "requeue": ("lbctl_queue", "end jobs and begin them anew"),
    "explain": ("lbctl", "where a command would run and why; runs nothing"),
    "eligible": ("lbctl_eligible", "what is known of commands a shell may send away, or of one"),
    "drain": ("lbctl_steer", "no new jobs on that host"),
    "undrain": ("lbctl_steer", "jobs again"),
    "reload": ("lbctl_steer", "read the owner's rules of this host again, without losing a job"),
    "algorithm": ("lbctl_steer", "show or change who tells whom its load, cluster-wide"),
    "param": ("lbctl_steer", "show or change a parameter, cluster-wide"),
    "restart": (
        "lbctl_restart",
        "this host's daemons make way for new ones; what runs goes on",
    ),
    "stats": ("lbctl_stats", "response times, moved jobs and more, of jobs that have ended"),
    "advise": ("lbctl_advise", "what would have been better for those jobs, by simulation"),
    "tags": ("lbctl_tags", "cutoffs for the TAGS tiers: solve, fit job sizes, show the queue's"),
    "init": ("lbctl_trust", "the first host of a cluster: its authority and its own certificate"),
    "join": ("lbctl_trust", "become a host of the cluster that a token is for"),
    "token": ("lbctl_trust", "what a new host joins with: create, list, revoke"),
    "revoke": ("lbctl_trust", "a host's certificates count no more, cluster-wide"),
    "doctor": ("lbctl_doctor", "check this host and its peers; name each fault and its mend"),
}
QUEUE = ("predict", "job", "logs", "kill", "hold", "release", "requeue", "wait")
DESCRIPTION = "look at a cluster of lbd hosts and steer it\n\ncommands:\n" + "\n".join(
    f"  {name:<10} {does}" for name, (_, does) in COMMANDS.items()
)
EXAMPLES = (
    "lbctl status                            who is up, and how busy",
    "lbctl explain make -j8                  where would it go, and why",
    "lbctl eligible gcc -c x.c               would a shell send it away, and why not",
    "lbctl drain h3 --wait                   empty h3 before its reboot",
    "lbctl algorithm LOWEST                  probe a few hosts instead of broadcasting",
    "lbctl param local_threshold 0.5         send commands away sooner",
    "lbctl stats --since 8h                  how long jobs took, by command, user and host",
    "lbctl tags solve --alpha 1 --mean 3000 --max 1e10 --load 0.5 --hosts 4",
    "lbctl status --json | jq '.hosts[].index'",
)


EXAMPLES_OF = {
    "advise": (
        "lbctl advise                      the jobs of the last day",
        "lbctl advise --since 7d           those of the week, for a rule that holds longer",
        "lbctl advise --json | jq '.best'",
    ),
    "stats": (
        "lbctl stats                       the last day, of all hosts",
        "lbctl stats --since 30d --json | jq '.by_command[] | [.command, .mean_response_s]'",
    ),
}


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    return guard("lbctl", lambda: dispatch(arguments))


def dispatch(argv: list[str]) -> int:
    parser = Parser("lbctl", DESCRIPTION, EXAMPLES)
    parser.add_config_options()
    parser.add_version()
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="see above")
    parser.add_argument("rest", metavar="…", nargs=argparse.REMAINDER, help="its own --help")
    options = parser.parse_args(argv)
    name: str | None = options.command
    if name is None:
        parser.error(f"which command? {', '.join(COMMANDS)}")
    if name not in COMMANDS:
        parser.error(f"{name!r} is no command; {hint(name, COMMANDS)}")
    if name == "tags":
        from lbd.cli.lbctl_tags import main as tags

        return tags(options.rest, options.config)
    if COMMANDS[name][0] == "lbctl_trust":
        from lbd.cli.lbctl_trust import main as trust

        return trust(name, options.rest, options.config)
    chosen = command_parser(name).parse_args(options.rest)
    path: str | None = chosen.config or options.config
    if name == "doctor":
        from lbd.cli.lbctl_doctor import doctor

        return doctor(path, chosen)
    command: Command = getattr(importlib.import_module(f"lbd.cli.{COMMANDS[name][0]}"), name)
    return command(Daemons(load(path)), chosen)


def command_parser(name: str) -> Parser:
    parser = Parser(f"lbctl {name}", COMMANDS[name][1], EXAMPLES_OF.get(name, ()))
    parser.add_version()
    parser.add_config_options()
    parser.add_argument("--json", action="store_true", help="data for scripts, stable")
    if name == "top":
        parser.add_argument("--interval", metavar="DUR", type=duration, default=1.0,
                            help="between two looks (default 1s)")  # fmt: skip
    elif name == "jobs":
        parser.add_argument("--all", action="store_true", help="ended ones too")
        parser.add_argument("ids", metavar="ID", nargs="*", help="only these")
    elif name in QUEUE:
        from lbd.cli.lbctl_queue import add_options

        add_options(name, parser)
    elif name == "explain":
        parser.add_argument("-H", "--host", metavar="NAME", help="as of lbrun")
        parser.add_argument("-x", "--exclude", metavar="NAME", action="append", default=[],
                            help="as of lbrun")  # fmt: skip
        where = parser.add_mutually_exclusive_group()
        where.add_argument("--local", action="store_true", help="as of lbrun")
        where.add_argument("--remote", action="store_true", help="as of lbrun")
        parser.add_argument("command", metavar="COMMAND", help="it is not run")
        parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER)
    elif name == "eligible":
        parser.add_argument("command", metavar="COMMAND", nargs="?", help="it is not run")
        parser.add_argument("arguments", metavar="ARG", nargs=argparse.REMAINDER)
    elif name == "stats":
        from lbd.cli.lbctl_stats import add_options as add_stats_options

        add_stats_options(parser)
    elif name == "advise":
        from lbd.cli.lbctl_advise import add_options as add_advise_options

        add_advise_options(parser)
    elif name in ("drain", "undrain"):
        parser.add_argument("host", metavar="HOST")
        if name == "drain":
            parser.add_argument(
                "--wait", action="store_true", help="until nothing foreign runs there"
            )
            parser.add_argument("--timeout", metavar="DUR", type=duration, default=float("inf"),
                                help="of the waiting; then exit 1")  # fmt: skip
    elif name == "restart":
        parser.add_argument(
            "daemons", metavar="DAEMON", nargs="*", help="lim or lbm (default both)"
        )
    elif name == "algorithm":
        parser.add_argument("name", metavar="NAME", nargs="?")
    elif name == "param":
        parser.add_argument("name", metavar="NAME", nargs="?", help="lim.min_gain or min_gain")
        parser.add_argument("value", metavar="VALUE", nargs="?",
                            help="without it, what is in force is shown")  # fmt: skip
    return parser


def explain(daemons: Daemons, options: argparse.Namespace) -> int:
    from lbd.cli.explain import ask_both, place_request, question, show, trouble_here
    from lbd.cli.lbctl_eligible import ask_eligible
    from lbd.cli.lbrun_caller import working_directory
    from lbd.cli.lbrun_options import Options

    if options.host in options.exclude:
        raise ConfigError(f"-H {options.host} and -x {options.host} exclude each other")
    request = place_request(options.host, options.exclude, options.remote, options.local)
    command = [options.command, *options.arguments]
    asked = question(request, command, working_directory(Options()), "")
    reply = ask_both(daemons.lbm, daemons.lim, request, asked)
    eligible, trouble = ask_eligible(daemons.lbm, command), trouble_here(reply, asked)
    show(reply, command, options.json, eligible, trouble)
    return 0


if __name__ == "__main__":
    sys.exit(main())
