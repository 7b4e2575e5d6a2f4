"""`lbctl web login`: prints a link that signs in to the status page, once."""

import argparse
import contextlib
import socket
import subprocess
import time
from pathlib import Path

from lbd.cli.ctl.verb import Verb, say
from lbd.cli.program import Parser
from lbd.cli.web import USUAL_LISTEN
from lbd.config.load import default_runtime_dir, load
from lbd.console.output import print_json, put
from lbd.console.reply import Json, number, text
from lbd.errors import Unavailable
from lbd.local.json_socket import ask
from lbd.process.own_directory import why_not_believed
from lbd.text.units import show_duration

WHERE = ("systemctl", "show", "--property=Listen", "--value", "lbd-web.socket")
ANSWER_S, WAKES_S, POLL_S = 2.0, 10.0, 0.1


def add_options(parser: Parser) -> None:
    parser.add_argument("action", metavar="login", choices=("login",),
                        help="print a link that signs you in")  # fmt: skip


def web(options: argparse.Namespace, path: str | None) -> int:
    """Asks the user's own page if there is one, else that of this host. Raises LbdError."""
    names = dict.fromkeys((default_runtime_dir(), load(path).host.runtime_dir))
    directories = [Path(name) for name in names]
    try:
        reply = first_answer(directories)
    except Unavailable:
        if not wake():
            raise
        reply = patiently(directories)
    if options.json:
        print_json({"url": reply.get("url"), "valid_s": reply.get("valid_s")})
        return 0
    put(text(reply, "url"))
    say(f"it signs you in once, and expires in {show_duration(number(reply, 'valid_s'))}")
    return 0


def first_answer(directories: list[Path]) -> Json:
    """Raises LbdError."""
    problem = Unavailable("no status page is running here; start one with `lbd web`")
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


def wake() -> bool:
    """Connects to the page's port, where systemd starts the page of the package. Returns whether
    that worked."""
    try:
        done = subprocess.run(WHERE, capture_output=True, text=True, timeout=ANSWER_S, check=False)
        # 127.0.0.1:9480 (Stream). Without D-Bus systemd answers only root.
        address = done.stdout.partition(" ")[0].strip() or USUAL_LISTEN
        host, _, port = address.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_S):
            return True
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def patiently(directories: list[Path]) -> Json:
    """Asks a page that is starting. Raises LbdError."""
    deadline_s = time.monotonic() + WAKES_S
    while time.monotonic() < deadline_s:
        with contextlib.suppress(Unavailable):
            return first_answer(directories)
        time.sleep(POLL_S)
    return first_answer(directories)


EXAMPLES = ("lbctl web login        open what it prints in your browser",)
VERBS = {"web": Verb(web, add_options, EXAMPLES)}
