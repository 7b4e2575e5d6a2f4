"""`lbctl web login`: a link that signs in to the status page, once."""

import argparse
from pathlib import Path

from lbd.cli.ctl.verb import Verb
from lbd.cli.program import Parser, complain
from lbd.config.load import default_runtime_dir, load
from lbd.console.output import print_json, put
from lbd.console.reply import Json, number, text
from lbd.errors import Unavailable
from lbd.local.json_socket import ask
from lbd.process.own_directory import why_not_believed
from lbd.text.units import show_duration


def add_options(parser: Parser) -> None:
    parser.add_argument("action", metavar="login", choices=("login",),
                        help="print a link that signs you in")  # fmt: skip


def web(options: argparse.Namespace, path: str | None) -> int:
    """Your own page if you run one, else that of this host. Raises LbdError."""
    directories = dict.fromkeys((default_runtime_dir(), load(path).host.runtime_dir))
    reply = first_answer([Path(directory) for directory in directories])
    if options.json:
        print_json({"url": reply.get("url"), "valid_s": reply.get("valid_s")})
        return 0
    put(text(reply, "url"))
    complain("lbctl", f"it signs you in once, within {show_duration(number(reply, 'valid_s'))}")
    return 0


def first_answer(directories: list[Path]) -> Json:
    """Raises LbdError."""
    problem = Unavailable("no status page runs here; `lbd web` starts one")
    for directory in directories:
        socket = directory / "web.sock"
        if not socket.exists():
            continue
        if fault := why_not_believed(directory):
            problem = Unavailable(f"{directory}: {fault}")
            continue
        try:
            return ask(socket, {"op": "login"})
        except Unavailable as found:
            problem = found
    raise problem


EXAMPLES = ("lbctl web login        open what it prints in your browser",)
VERBS = {"web": Verb(web, add_options, EXAMPLES)}
