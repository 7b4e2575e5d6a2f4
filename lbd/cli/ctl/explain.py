"""`lbctl explain` and `lbrun --explain`: where a command would go and why, without running it."""

import argparse
import os

from lbd.cli.ctl.eligible import add_command
from lbd.cli.ctl.verb import Verb, reading
from lbd.cli.program import Parser
from lbd.console.daemons import Daemons
from lbd.console.decision import (
    ask_both,
    ask_eligible,
    place_request,
    question,
    show,
    trouble_here,
)
from lbd.errors import ConfigError
from lbd.policy.invocation import key_of, name_of
from lbd.text.program_names import in_list


def add_options(parser: Parser) -> None:
    parser.add_argument("-H", "--host", metavar="NAME", help="as for lbrun")
    parser.add_argument("-x", "--exclude", metavar="NAME", action="append", default=[],
                        help="as for lbrun")  # fmt: skip
    for option in ("--need", "--feature", "--not-feature"):
        parser.add_argument(option, metavar="NAME", action="append", default=[],
                            help="as for lbrun")  # fmt: skip
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--local", action="store_true", help="as for lbrun")
    where.add_argument("--remote", action="store_true", help="as for lbrun")
    add_command(parser, nargs=None)


def explain(daemons: Daemons, options: argparse.Namespace) -> int:
    from lbd.client.complaints import Trouble
    from lbd.client.options import NEEDS, Options, read_asked
    from lbd.client.surroundings import working_directory

    try:
        needs = read_asked({key: getattr(options, key) for key in NEEDS})
    except Trouble as problem:
        raise ConfigError(str(problem)) from None
    if options.host in options.exclude:
        raise ConfigError(f"-H {options.host} and -x {options.host} exclude each other")
    request = place_request(options.host, options.exclude, options.remote, options.local, needs)
    command = [options.command, *options.arguments]
    asked = question(request, command, working_directory(Options()), "")
    kept = daemons.config.eligibility.never
    argv = [os.fsencode(word) for word in command]
    asked["kept"] = in_list(kept, name_of(argv), key_of(argv))
    reply = ask_both(daemons.lbm, daemons.lim, request, asked)
    eligible, trouble = ask_eligible(daemons.lbm, command), trouble_here(reply, asked)
    show(reply, request, command, options.json, eligible, trouble)
    return 0


VERBS = {"explain": Verb(reading(explain), add_options)}
