"""Asks this host's daemons on behalf of programs, if root or the caller has started them."""

from collections.abc import Sequence
from contextlib import closing

from lbd.client.lbm_socket import connect
from lbd.client.start_wait import none_found, remedy
from lbd.errors import Unavailable
from lbd.local.json_socket import Json, ask_on


def ask(directories: Sequence[str], daemon: str, question: Json, timeout_s: float) -> Json:
    """Raises Unavailable if no trusted daemon answers, Refusal if the answer is no."""
    sock = connect(list(directories), daemon)
    if sock is None:
        what = none_found(list(directories), daemon)
        raise Unavailable(what + remedy(what, list(directories)))
    with closing(sock):
        return ask_on(sock, daemon, question, timeout_s)
