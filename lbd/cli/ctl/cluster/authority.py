"""`lbctl authority`: where the cluster's authority is, and how to move it to another host.

One host gives it away into a file, and another takes it from that file and announces this to all
hosts with a signed message. In between no host has it, so there are never two. If its host is lost,
a backup of it serves as the file.
"""

import argparse
import shlex
import time
from pathlib import Path

import lbd
from lbd.cli.ctl.backup import authority_known_here, check_is_ours
from lbd.cli.ctl.backup_content import AUTHORITY, Manifest, manifest_in, pack, unpacked
from lbd.cli.ctl.backup_files import scratch
from lbd.cli.ctl.cluster import units
from lbd.cli.ctl.own_address import say_if_unheard
from lbd.cli.ctl.own_config import need_writable
from lbd.cli.ctl.trust import (
    authority_in,
    need_authority,
    need_readable,
    show_to_daemons,
)
from lbd.cli.ctl.verb import Run, Verb, say
from lbd.cli.program import Parser
from lbd.config.load import load
from lbd.config.schema import Config
from lbd.console.output import print_json, put
from lbd.errors import LbdError
from lbd.model import target_of
from lbd.trust.authority import Authority, heard, is_superseded
from lbd.trust.certificates import fingerprint
from lbd.trust.files import authority_dir, host_files, make_private_dir, read, write_private

ABOUT = {
    "give": "move the authority from this host into FILE",
    "take": "install the authority here from FILE, or from a backup of the host that had it",
}
EXAMPLES = (
    "lbctl authority                      which host has it",
    "lbctl authority give /root/key.tar   on that host, as root",
    "lbctl authority take /root/key.tar   on the new host, as root",
)


def add_options(parser: Parser) -> None:
    parser.set_defaults(act=show)
    for word, made in parser.subcommands(ABOUT, required=False):
        made.set_defaults(act=give if word == "give" else take)
        made.add_argument("file", metavar="FILE", help="readable by its owner only")


def authority(options: argparse.Namespace, path: str | None) -> int:
    act: Run = options.act
    return act(options, path)


def show(options: argparse.Namespace, path: str | None) -> int:
    files = host_files(load(path))
    need_readable(files.root)
    home, target = files.read_home()
    if not home:
        raise LbdError("this host has not joined a cluster: run `lbctl join` or `lbctl init`")
    if options.json:
        print_json({"host": home, "address": target})
    else:
        put(f"the authority is on {home}, {target}")
    return 0


def give(options: argparse.Namespace, path: str | None) -> int:
    config, here = need_authority(path)
    file, host = Path(options.file), config.host.name
    with scratch(file.parent) as directory, here.given_away():
        (directory / "authority").mkdir()
        for name, source in zip(AUTHORITY, (here.ledger_file, here.key_file), strict=True):
            (directory / name).write_bytes(read(source))
        known = fingerprint(here.certificate).hex()
        manifest = Manifest(1, lbd.__version__, here.ledger().cluster, host, time.time(), known)
        pack(directory, manifest, AUTHORITY, file)
    units.run_authority("stop", Path(config.path))
    if options.json:
        print_json({"host": None, "file": str(file)})
        return 0
    file = file.absolute()
    put(f"the authority is now in {file}, no longer on {host}")
    put("copy the file to the new host, and run there as root:")
    put(f"  lbctl authority take {shlex.quote(str(file))}")
    return 0


def take(options: argparse.Namespace, path: str | None) -> int:
    config, file = load(path), Path(options.file)
    files, host = host_files(config), config.host.name
    need_readable(files.root)
    if not files.exist():
        raise LbdError(f"{host} is not part of a cluster yet: run `lbctl join` first")
    need_writable(authority_dir(config))
    if is_here(config):
        raise LbdError(f"the authority is already on {host}")
    target = target_of(config.host.address, config.lim.port)
    with scratch(authority_dir(config).parent) as directory:
        if AUTHORITY[1] not in unpacked(file, directory):
            raise LbdError(f"{file} contains no authority")
        check_is_ours(file, manifest_in(file, directory), config)
        taken = Authority(directory / "authority", config.tls.certificate_s)
        taken.root.chmod(0o700)
        if fingerprint(taken.certificate).hex() != authority_known_here(config):
            raise LbdError(f"{file} claims to hold this cluster's authority but holds another one")
        known, copied = heard(files, taken.certificate), taken.ledger()
        taken.change(lambda ledger: ledger.moved_to(host, target, known))
        signed = taken.signed_list()
        here = authority_in(config)
        make_private_dir(here.root)
        for source, to in ((taken.ledger_file, here.ledger_file), (taken.key_file, here.key_file)):
            write_private(to, read(source))
    show_to_daemons(config, here)
    write_private(files.home, f"{host} {target}\n".encode())
    files.write_signed(signed)  # last, because the LIM sends it to the other hosts
    if options.json:
        print_json({"host": host, "file": str(file)})
    else:
        put(
            f"the authority is now on {host}; hosts that are up learn of it at once, others when "
            "they come up"
        )
        if copied.has_open_tokens(time.time()):
            say("tokens that were made before are void: `lbctl token create` makes others")
    say_if_unheard(config)
    return 0


def is_here(config: Config) -> bool:
    """Ignores what is left of it on a host that was down when another machine went on with it."""
    files, here = host_files(config), authority_in(config)
    if files.read_home()[0] not in ("", config.host.name) or not here.exists():
        return False
    return not is_superseded(here, files.read_signed())


VERBS = {"authority": Verb(authority, add_options, EXAMPLES, own_options=True)}
