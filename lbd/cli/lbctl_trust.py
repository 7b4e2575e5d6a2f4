"""Who belongs to the cluster: `lbctl init`, `join`, `token`, `revoke`."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.cli.lbctl import COMMANDS
from lbd.cli.output import print_json, print_table
from lbd.cli.own_config import Keys, OwnConfig, complete, need_writable, own_config, set_in
from lbd.cli.privilege import make_account
from lbd.cli.program import Parser, complain
from lbd.cli.quantities import duration
from lbd.config import Config
from lbd.config_file import SYSTEM_FILE, absent_file, load, load_new
from lbd.errors import ConfigError, LbdError
from lbd.host_name import NAME_RULE, is_host_name
from lbd.model import target_of
from lbd.one_line import one_line
from lbd.rpc import joining
from lbd.rpc.local import ask
from lbd.trust import token as tokens
from lbd.trust.authority import Authority, check_name
from lbd.trust.enrol import enrol, install
from lbd.trust.files import HostFiles, authority_dir, host_files, write_private
from lbd.trust.names import identity_of
from lbd.units import duration_text

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN_LIFE_S = 3600.0
TOKEN_CHARS_MAX = 1000
ELSEWHERE = ("192.0.2.1", 9)  # nobody's: what this host would send to the world from
TOKEN_ABOUT = {
    "create": "print a token for one new host",
    "list": "tokens that are out or were of late",
    "revoke": "a token is no use any more",
}
EXAMPLES = {
    "init": ("lbctl init --address 10.0.0.1        on the first host; prints how the next joins",),
    "join": ("lbctl join 10.0.0.1 -                on every other host; asks for the token",),
    "token": ("lbctl token create h7 --expires 10m  on the host where `lbctl init` ran",),
    "revoke": ("lbctl revoke h2                      on the host where `lbctl init` ran",),
}


def main(name: str, argv: list[str], config_path: str | None) -> int:
    options = make_parser(name).parse_args(argv)
    run: Callable[[argparse.Namespace, str | None], int] = options.run
    return run(options, options.config or config_path)


def make_parser(name: str) -> Parser:
    parser = Parser(f"lbctl {name}", COMMANDS[name][1], EXAMPLES[name])
    parser.add_version()
    parser.add_config_options()
    if name == "token":
        commands = parser.add_subparsers(metavar="COMMAND", required=True)
        for word, about in TOKEN_ABOUT.items():
            made: Parser = commands.add_parser(word, description=about, help=about)
            add_token_options(made, word)
        return parser
    parser.set_defaults(run={"init": init, "join": join, "revoke": revoke}[name])
    if name == "init":
        parser.add_argument("--cluster", metavar="NAME", help="cluster.name (default: lbd)")
        parser.add_argument("--next", metavar="HOST", type=host_name,
                            help="print a token for this host, too")  # fmt: skip
    elif name == "join":
        parser.add_argument("target", metavar="ADDRESS", help="of the LIM where the authority is")
        parser.add_argument("token", metavar="TOKEN", nargs="?", default="-",
                            help="- (default) reads it from standard input: as an argument, every "
                                 "user of this host can see it")  # fmt: skip
    else:
        parser.add_argument("host", metavar="HOST")
    if name in ("init", "join"):
        parser.add_argument("--name", metavar="HOST", help="of this host (default: host.name)")
        parser.add_argument("--address", metavar="IP", help="by which other hosts reach this one")
    return parser


def add_token_options(parser: Parser, word: str) -> None:
    parser.set_defaults(run={"create": create, "list": list_, "revoke": forget}[word])
    if word == "create":
        parser.add_argument("host", metavar="HOST", nargs="?", type=host_name,
                            help="that may use it, and replaces a host of that name")  # fmt: skip
        parser.add_argument("--any", action="store_true",
                            help="any host may use it, by a name that is free")  # fmt: skip
        parser.add_argument("--expires", "--valid", metavar="DUR", type=duration,
                            default=TOKEN_LIFE_S, help="for how long (default 1h)")  # fmt: skip
    if word == "revoke":
        parser.add_argument("id", metavar="ID", help="as `lbctl token list` shows it")
    else:
        parser.add_argument("--json", action="store_true", help="data for scripts, stable")


# -- this host -----------------------------------------------------------------------------------


def init(options: argparse.Namespace, path: str | None) -> int:
    named = {("cluster", "name"): options.cluster} if options.cluster else {}
    own = this_host(options, path, ELSEWHERE, named)
    config = own.config
    files, authority = host_files(config), authority_in(config)
    refuse_if_joined(files)
    check_name(config.host.name)
    need_writable(authority.root)
    warn_of_loopback(own)
    now_s = time.time()
    if authority.exists():
        say(f"the authority in {authority.root} is kept")
    else:
        authority.create(config.cluster.name, config.host.name, now_s)
        print(f"authority of cluster {config.cluster.name} in {authority.root} (keep a copy of it)")
    target = target_of(config.host.address, config.lim.port)
    enrol(authority, files, config.host.name, target, now_s)
    print(f"certificate of {config.host.name} in {files.root}")
    settle_config(own, {})
    if options.next:
        token = authority.new_token(options.next, TOKEN_LIFE_S, now_s)
        print(f"then on {options.next}, within {duration_text(TOKEN_LIFE_S)}:")
        print(f"  {joining_command(target, token.text())}")
    else:
        print("then here, for each other host:\n  lbctl token create HOST")
    return 0


def joining_command(target: str, token: str) -> str:
    """`echo` is the shell's own: the arguments of a program are for every user to see."""
    return f"echo {token} | lbctl join {target} -"


def host_name(text: str) -> str:
    if not is_host_name(text):
        raise ConfigError(f"{text!r} {NAME_RULE}")
    return text


def read_token(given: str) -> str:
    if given != "-":
        return given
    if sys.stdin.isatty():
        print("token: ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline(TOKEN_CHARS_MAX).strip()


def join(options: argparse.Namespace, path: str | None) -> int:
    token = tokens.parse(read_token(options.token))
    address = joining.parse_address(options.target)
    own = this_host(options, path, address, {})
    config, target = own.config, target_of(*address)
    files = host_files(config)
    refuse_if_joined(files)
    check_name(config.host.name)
    need_writable(files.root)  # before the token is spent
    joined = joining.join(address, token, config.host.name, time.time())
    install(files, joined.credentials, joined.authority, joined.home, target, joined.revocations)
    print(f"joined cluster {joined.cluster}: certificate of {config.host.name} in {files.root}")
    named = own.is_fresh or config.cluster.name != joined.cluster
    more: Keys = {("cluster", "name"): joined.cluster} if named else {}
    settle_config(own, {**more, ("cluster", "join"): target})
    if joined.cluster != load(str(own.file)).cluster.name:
        say(f'{own.file} has another cluster.name: make it "{joined.cluster}"')
    return 0


def this_host(
    options: argparse.Namespace, path: str | None, other: tuple[str, int], wanted: Keys
) -> OwnConfig:
    """`other`: whoever this host is to be reached from, as far as that is known."""
    for key in ("name", "address"):
        if value := getattr(options, key):
            wanted["host", key] = value
    file = absent_file(path)
    otherwise: Keys = {} if file is None else {("host", "name"): load_new(()).host.name}
    if not options.address and (file is not None or ("host", "address") not in set_in_file(path)):
        otherwise["host", "address"] = joining.own_address(other)
    return own_config(path, wanted, otherwise)


def set_in_file(path: str | None) -> Keys:
    return set_in(Path(load(path).path))


def settle_config(own: OwnConfig, more: Keys) -> None:
    """Write what the configuration lacks, and say what is next."""
    if complete(own, more):
        print(f"configuration {'written to' if own.is_fresh else 'completed in'} {own.file}")
    if own.file == SYSTEM_FILE and (done := make_account(load(str(own.file)))):
        print(done)  # where the file is the system's, the account may be
    running = (Path(own.config.host.runtime_dir) / "lim.sock").exists()
    print("restart what runs here: lbctl restart" if running else "start it: lbd up")


def warn_of_loopback(own: OwnConfig) -> None:
    if own.config.host.address.startswith("127."):
        say(f"no other machine reaches this one at {own.config.host.address} (host.address)")


def refuse_if_joined(files: HostFiles) -> None:
    """A certificate that has ended, was revoked or is damaged does not stand in the way."""
    if not files.exist():
        return
    from lbd.rpc.tls import names_in

    try:
        own = files.read_credentials()
        identity, until_s = identity_of(names_in(own.certificate)), own.valid_s[1]
    except (ConfigError, ValueError):
        return
    if identity is None or until_s < time.time():
        return
    if identity.issue >= files.read_revocations().lowest_issue(identity.host):
        raise ConfigError(
            f"this host has joined already, as {identity.host}, with the authority of "
            f"{files.read_home()[0]}; to leave that cluster, or join again, remove "
            f"{files.root}"
        )


# -- the authority -------------------------------------------------------------------------------


def authority_in(config: Config) -> Authority:
    return Authority(authority_dir(config), config.tls.certificate_s)


def need_authority(path: str | None) -> tuple[Config, Authority]:
    """Raises LbdError if it is not here, or not ours to use."""
    config = load(path)
    authority = authority_in(config)
    need_readable(authority.root)
    if not authority.exists():
        home = host_files(config).read_home()[0]
        where = f"it is on {home}: run this there" if home else "`lbctl init` makes one"
        raise LbdError(f"there is no authority in {authority.root}; {where}")
    return config, authority


def need_readable(path: Path) -> None:
    for place in (*reversed(path.parents), path):
        if place.exists() and not os.access(place, os.X_OK):
            raise LbdError(f"{place} is closed to you: only root or the daemons' user may do that")


def create(options: argparse.Namespace, path: str | None) -> int:
    config, authority = need_authority(path)
    if options.host and options.any:
        raise ConfigError(f"for {options.host} alone, or --any? give one of the two")
    now_s = time.time()
    token = authority.new_token(options.host or "", options.expires, now_s)
    if options.json:
        until = {"id": token.id, "until": now_s + options.expires, "host": options.host or None}
        print_json({"token": token.text(), **until})
        return 0
    target = target_of(config.host.address, config.lim.port)
    where = options.host or "the new host"
    within = duration_text(options.expires)
    if not options.host and not options.any:
        say("whoever comes first may use it; `lbctl token create HOST` is for that host alone")
    say(f"on {where}, within {within}: {joining_command(target, 'TOKEN')}")
    print(token.text())
    return 0


def list_(options: argparse.Namespace, path: str | None) -> int:
    _, authority = need_authority(path)
    now_s = time.time()
    rows = [
        {
            "id": token.id,
            "state": "used" if token.used_by else "open" if now_s < token.until_s else "ended",
            "host": token.used_by or token.host or None,
            "until": token.until_s,
        }
        for token in authority.ledger().tokens
    ]
    if options.json:
        print_json({"tokens": rows})
        return 0
    shown = [
        (row["id"], row["state"], one_line(str(row["host"] or "any")), left(row["until"], now_s))
        for row in rows
    ]
    print_table(("TOKEN", "STATE", "HOST", ">LEFT"), [list(map(str, row)) for row in shown])
    return 0


def left(until_s: object, now_s: float) -> str:
    seconds = float(str(until_s)) - now_s
    return duration_text(seconds) if seconds > 0 else "-"


def forget(options: argparse.Namespace, path: str | None) -> int:
    _, authority = need_authority(path)
    authority.revoke_token(options.id)
    print(f"token {options.id} is no use any more")
    return 0


def revoke(options: argparse.Namespace, path: str | None) -> int:
    config, authority = need_authority(path)
    signed = authority.revoke(options.host)
    write_private(host_files(config).revoked, signed)
    wait = duration_text(config.tls.revocation_check_s)
    print(f"{options.host} is revoked; hosts that are up hear of it now, others within {wait}")
    lim = Path(config.host.runtime_dir) / "lim.sock"
    try:
        ask(lim, {"op": "status"}, 2.0)
    except LbdError:
        say("the LIM of this host does not answer: nobody hears of it before `lbd up` runs here")
    return 0


def say(text: str) -> None:
    complain("lbctl", text)
