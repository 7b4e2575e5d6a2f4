"""`lbctl token`: the tokens with which new hosts join."""

import argparse
import sys
import time

from lbd.cli.ctl.config import sign_again
from lbd.cli.ctl.trust import TOKEN_LIFE_S, host_name, need_authority
from lbd.cli.ctl.verb import Run, Verb, say
from lbd.cli.program import Parser
from lbd.cli.quantities import duration, whole
from lbd.console.daemons import Daemons
from lbd.console.output import print_json, print_table
from lbd.errors import ConfigError
from lbd.model import target_of
from lbd.text.one_line import one_line
from lbd.text.units import duration_text
from lbd.trust import token as tokens
from lbd.trust.authority import USES_MAX
from lbd.trust.ledger import TokenRecord

ABOUT = {
    "create": "print a token that lets one new host join",
    "list": "list open and recently used tokens",
    "revoke": "make a token unusable",
}


def add_commands(parser: Parser) -> None:
    for word, made in parser.subcommands(ABOUT):
        add_options(made, word)


def add_options(parser: Parser, word: str) -> None:
    parser.set_defaults(run={"create": create, "list": list_, "revoke": forget}[word])
    if word == "create":
        parser.add_argument("host", metavar="HOST", nargs="?", type=host_name,
                            help="the host that may use it; it replaces a host of that "
                                 "name")  # fmt: skip
        parser.add_argument("--any", action="store_true",
                            help="any host may use it, under a name that is free")  # fmt: skip
        parser.add_argument("--uses", metavar="N", type=whole(1, USES_MAX), default=1,
                            help="N hosts may use it, each under a free name")  # fmt: skip
        parser.add_argument("--expires", "--valid", metavar="DUR", type=duration,
                            default=TOKEN_LIFE_S, help="valid for (default 1h)")  # fmt: skip
    if word == "revoke":
        parser.add_argument("id", metavar="ID", help="as shown by `lbctl token list`")


def create(options: argparse.Namespace, path: str | None) -> int:
    config, authority = need_authority(path)
    if options.host and options.any:
        raise ConfigError(f"give either {options.host} or --any, not both")
    now_s = time.time()
    token = authority.new_token(options.host or "", options.expires, now_s, options.uses)
    sign_again(Daemons(config), options.host or "")
    if options.json:
        until = {"id": token.id, "until": now_s + options.expires, "host": options.host or None}
        print_json({"token": token.text(), **until, "uses": options.uses})
        return 0
    target = target_of(config.host.address, config.lim.port)
    where = options.host or ("each new host" if options.uses > 1 else "the new host")
    within = duration_text(options.expires)
    if not options.host and not options.any and options.uses < 2:
        say("the first host to use it may join; `lbctl token create HOST` makes one for that host")
    if not sys.stdout.isatty():  # a program that reads the token needs no more
        print(token.text())
        return 0
    print(f"on {where}, within {within}:")
    print(f"  {tokens.joining_command(target, token.text())}")
    return 0


def list_(options: argparse.Namespace, path: str | None) -> int:
    _, authority = need_authority(path)
    now_s = time.time()
    rows = [
        {
            "id": token.id,
            "state": state_of(token, now_s),
            "host": (token.used_by[-1] if token.uses_left < 1 else token.host) or None,
            "until": token.until_s,
            "uses_left": token.uses_left,
        }
        for token in authority.ledger().tokens
    ]
    if options.json:
        print_json({"tokens": rows})
        return 0
    shown = [
        (str(row["id"]), str(row["state"]), one_line(str(row["host"] or "any")),
         str(row["uses_left"]), left(row["until"], now_s))
        for row in rows
    ]  # fmt: skip
    print_table(("TOKEN", "STATE", "HOST", ">USES", ">LEFT"), shown)
    return 0


def state_of(token: TokenRecord, now_s: float) -> str:
    if token.uses_left < 1:
        return "used"
    return "open" if now_s < token.until_s else "ended"


def left(until_s: object, now_s: float) -> str:
    seconds = float(str(until_s)) - now_s
    return duration_text(seconds) if seconds > 0 else "-"


def forget(options: argparse.Namespace, path: str | None) -> int:
    _, authority = need_authority(path)
    authority.revoke_token(options.id)
    if options.json:
        print_json({"id": options.id, "revoked": True})
    else:
        print(f"token {options.id} is revoked")
    return 0


def token(options: argparse.Namespace, path: str | None) -> int:
    run: Run = options.run
    return run(options, path)


VERBS = {
    "token": Verb(
        token, add_commands,
        ("lbctl token create h7 --expires 10m  on the host where `lbctl init` ran",),
        own_options=True,
    )
}  # fmt: skip
