"""Membership of the cluster: `lbctl init`, `join`, `revoke`."""

import argparse
import os
import shlex
import sys
import time
from pathlib import Path

from lbd.cli.ctl.cluster import units
from lbd.cli.ctl.cluster.queue_place import place_on_first_host
from lbd.cli.ctl.own_address import (
    certified,
    check_address,
    refuse_another_name,
    refuse_if_joined,
    refuse_unmounted,
    remarks,
    say_if_unheard,
)
from lbd.cli.ctl.own_config import Keys, OwnConfig, complete, need_writable, own_config, set_in
from lbd.cli.ctl.verb import Verb, say
from lbd.cli.daemons.privilege import make_account
from lbd.cli.program import Parser
from lbd.config.load import SYSTEM_FILE, absent_file, load, load_new
from lbd.config.schema import Config
from lbd.errors import ConfigError, LbdError
from lbd.keeper.gate import find_account
from lbd.local.starting import how_to_start
from lbd.model import target_of
from lbd.net import joining
from lbd.process.accounts import DEFAULT, ROOT
from lbd.text.host_name import NAME_RULE, is_host_name
from lbd.text.units import duration_text
from lbd.trust import certificates
from lbd.trust import token as tokens
from lbd.trust.authority import Authority, check_name, is_superseded
from lbd.trust.enrol import enrol, install
from lbd.trust.files import HostFiles, authority_dir, host_files
from lbd.trust.root_directory import check_root_directory

TOKEN_LIFE_S = 3600.0
TOKEN_CHARS_MAX = 1000
ELSEWHERE = ("192.0.2.1", 9)  # reserved address: shows which of our addresses routes to the outside


def add_own_options(parser: Parser) -> None:
    parser.add_argument("--name", metavar="HOST", help="this host's name (default: host.name)")
    parser.add_argument("--address", metavar="IP", help="where other hosts reach this one")


def add_init_options(parser: Parser) -> None:
    parser.add_config_options()
    parser.add_argument("--cluster", metavar="NAME", help="cluster.name (default: lbd)")
    parser.add_argument("--next", metavar="HOST", type=host_name,
                        help="also print a token for this host")  # fmt: skip
    parser.add_argument("--queue", action="store_true",
                        help="run the cluster's queue on this host (lbctl queue)")  # fmt: skip
    add_own_options(parser)


def add_join_options(parser: Parser) -> None:
    parser.add_config_options()
    parser.add_argument("target", metavar="ADDRESS", help="of the LIM on the authority's host")
    parser.add_argument("token", metavar="TOKEN", nargs="?", default="-",
                        help="- (default) reads it from standard input; as an argument, every user "
                             "of this host could see it")  # fmt: skip
    add_own_options(parser)


def add_revoke_options(parser: Parser) -> None:
    parser.add_config_options()
    parser.add_argument("host", metavar="HOST")


# -- this host -----------------------------------------------------------------------------------


def init(options: argparse.Namespace, path: str | None) -> int:
    named = {("cluster", "name"): options.cluster} if options.cluster else {}
    own = this_host(options, path, ELSEWHERE, named)
    config = own.config
    files, authority = host_files(config), authority_in(config)
    refuse_if_joined(files, authority.root)
    check_name(config.host.name)
    need_writable(authority.root)
    remarks(own, path)
    now_s = time.time()
    more: Keys = {}
    if is_kept := authority.exists():
        say(f"the authority in {authority.root} is kept")
        cluster = authority.ledger().cluster
        if not options.cluster and cluster != config.cluster.name:
            more["cluster", "name"] = cluster
        if authority.replace_home(config.host.name, now_s):
            say(f"the certificate that {config.host.name} had before is revoked")
    else:
        authority.create(config.cluster.name, config.host.name, now_s)
        print(f"authority of cluster {config.cluster.name} in {authority.root} (keep a copy of it)")
    target = target_of(config.host.address, config.lim.port)
    enrol(authority, files, config.host.name, target, now_s)
    if is_kept:
        files.write_signed(authority.signed_list())
    print(f"certificate of {config.host.name} in {files.root}")
    if options.queue:
        place_on_first_host(config, files, now_s)
        print(f"the queue is on {config.host.name}")
    settle_config(own, more, path)
    show_to_daemons(load(str(own.file)), authority)
    if options.next:
        token = authority.new_token(options.next, TOKEN_LIFE_S, now_s)
        print(f"then on {options.next}, within {duration_text(TOKEN_LIFE_S)}:")
        print(f"  {tokens.joining_command(target, token.text())}")
    else:
        others = ", ".join(authority.ledger().others(config.host.name, now_s))
        known = f"these have joined already: {others}\n" if others else ""
        print(
            with_config(f"{known}then here, for each other host:\n  lbctl token create HOST", path)
        )
    return 0


def show_to_daemons(config: Config, authority: Authority) -> None:
    """Lets daemons that do not run as root read the ledger, and starts the process that holds the
    key, if systemd manages it. Needs root; does nothing otherwise."""
    if os.geteuid() != 0 or config.daemons.user == ROOT:
        return
    if (account := find_account(config.daemons.user or DEFAULT)) is None:
        return  # `lbd up` says what to do
    authority.show_to(account.gid)
    units.run_authority("start", Path(config.path))


def host_name(text: str) -> str:
    if not is_host_name(text):
        raise argparse.ArgumentTypeError(f"{text!r} {NAME_RULE}")
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
    if not is_for_member(token, files, config.host.name):
        refuse_if_joined(files, authority_dir(config))
    check_name(config.host.name)
    need_writable(files.root)  # checked before the token is spent
    joined = joining.join(address, token, config.host.name, time.time())
    install(files, joined.credentials, joined.authority, joined.home, target, joined.revocations)
    print(f"joined cluster {joined.cluster}: certificate of {config.host.name} in {files.root}")
    named = own.is_fresh or config.cluster.name != joined.cluster
    more: Keys = {("cluster", "name"): joined.cluster} if named else {}
    settle_config(own, {**more, ("cluster", "join"): target}, path)
    if joined.cluster != load(str(own.file)).cluster.name:
        say(f'{own.file} has a different cluster.name: change it to "{joined.cluster}"')
    return 0


def this_host(
    options: argparse.Namespace, path: str | None, other: tuple[str, int], wanted: Keys
) -> OwnConfig:
    """`other` is a host that must be able to reach this one, if one is known."""
    for key in ("name", "address"):
        if value := getattr(options, key):
            wanted["host", key] = value
    file = absent_file(path)
    if options.name and file is None:
        refuse_another_name(host_files(load(path)), options.name)
    otherwise: Keys = {} if file is None else {("host", "name"): load_new(()).host.name}
    if not options.address and (file is not None or ("host", "address") not in set_in_file(path)):
        otherwise["host", "address"] = joining.own_address(other)
    own = own_config(path, wanted, otherwise)
    check_address(own)
    refuse_unmounted(own.config)
    return own


def set_in_file(path: str | None) -> Keys:
    return set_in(Path(load(path).path))


def settle_config(own: OwnConfig, more: Keys, path: str | None) -> None:
    """Adds what the configuration lacks, and says what to do next."""
    if complete(own, more):
        print(f"configuration {'written to' if own.is_fresh else 'completed in'} {own.file}")
    if own.file == SYSTEM_FILE and (done := make_account(load(str(own.file)))):
        print(done)  # where the system's file is used, the account may be created
    if done := units.enable(own.file):
        print(done)
    running = (Path(own.config.host.runtime_dir) / "lim.sock").exists()
    if not running and path in (None, str(SYSTEM_FILE)):
        print(how_to_start([own.config.host.runtime_dir]))
    else:
        do = (
            "now restart the daemons of this host: lbctl restart"
            if running
            else "start it with: lbd up"
        )
        print(with_config(do, path))


def with_config(command: str, path: str | None) -> str:
    """`path` is what the user gave with --config."""
    return command if path is None else f"{command} --config {shlex.quote(path)}"


def is_for_member(token: tokens.Token, files: HostFiles, host: str) -> bool:
    """Returns whether this host has joined the token's own cluster under that name.

    Then the authority decides, because it knows more: a host that was revoked while it was off does
    not know that. Nothing changes here unless the authority issues a certificate.
    """
    identity = certified(files)
    try:
        own = certificates.fingerprint(files.read_authority())
    except (ConfigError, ValueError):
        return False
    if identity is None or files.read_home()[0] == host:  # this is the authority's own host
        return False
    return identity.host == host and own == token.fingerprint


# -- the authority -------------------------------------------------------------------------------


def authority_in(config: Config) -> Authority:
    """Raises ConfigError if others could have put it where only root may write."""
    need_root = os.geteuid() == 0 and config.daemons.user != ROOT
    authority = Authority(authority_dir(config), config.tls.certificate_s)
    if need_root and authority.root.exists():
        check_root_directory(authority.root)
    return authority


def need_authority(path: str | None) -> tuple[Config, Authority]:
    """Raises LbdError if the authority is not here or we may not use it."""
    config = load(path)
    for place in (authority_dir(config), host_files(config).root):
        if unreadable(place) is not None:
            raise LbdError("only root can do that, on the host that has the authority")
    authority = authority_in(config)
    if (home := host_files(config).read_home()[0]) not in ("", config.host.name):
        raise LbdError(f"the authority is on {home}: run this there")
    if not authority.exists():
        raise LbdError(f"there is no authority in {authority.root}; `lbctl init` creates one")
    if is_superseded(authority, host_files(config).read_signed()):
        raise LbdError(f"the authority in {authority.root} is an old copy: another machine goes on "
                       f"with it, as {home or config.host.name}; run this there")  # fmt: skip
    return config, authority


def need_readable(path: Path) -> None:
    if (place := unreadable(path)) is not None:
        raise LbdError(f"{place}: permission denied; only root or the daemons' user can")


def unreadable(path: Path) -> Path | None:
    """Returns the first directory on the way that we may not look into."""
    for place in (*reversed(path.parents), path):
        if place.exists() and not os.access(place, os.X_OK):
            return place
    return None


def revoke(options: argparse.Namespace, path: str | None) -> int:
    config, authority = need_authority(path)
    tokens_of_it = authority.ledger().tokens_of(options.host)
    host_files(config).write_signed(authority.revoke(options.host))
    wait = duration_text(config.tls.revocation_check_s)
    print(f"{options.host} is revoked; hosts that are up learn of it at once, others within {wait}")
    now_s = time.time()
    for token in tokens_of_it:
        if token.used_by and token.uses_left and now_s < token.until_s:
            print(f"token {token.id} is void, too: {options.host} has joined with it")
    say_if_unheard(config)
    return 0


VERBS = {
    name: Verb(run, add, (example,), own_options=True)
    for name, run, add, example in (
        ("init", init, add_init_options,
         "lbctl init --address 10.0.0.1        on the first host; prints how the next one joins"),
        ("join", join, add_join_options,
         "lbctl join 10.0.0.1 -                on every other host; asks for the token"),
        ("revoke", revoke, add_revoke_options,
         "lbctl revoke h2                      on the host where `lbctl init` ran"),
    )
}  # fmt: skip
