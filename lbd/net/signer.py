"""The authority when its key is in another process (`lbd authority`), which is asked on a Unix
socket.

So the daemons, which are exposed to the network, cannot read the key that can certify any host.
They read the public part of the authority, its ledger, themselves.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lbd.errors import PeerError
from lbd.local import json_socket as local
from lbd.trust.authority import Authority

if TYPE_CHECKING:
    from lbd.local.caller import Caller
    from lbd.local.json_socket import Json

SOCKET = "authority.sock"
TIMEOUT_S = 5.0  # less than callers wait for a certificate


class AskedAuthority(Authority):
    """The LIM's view of the authority: it asks the other process unless it may read the key, which
    can change at run time."""

    def __init__(self, root: Path, certificate_s: float, socket: Path) -> None:
        super().__init__(root, certificate_s)
        self._socket = socket

    @property
    def has_key(self) -> bool:
        return os.access(self.key_file, os.R_OK)

    def join_shown(self, shown: bytes, host: str, request: bytes, now_s: float) -> bytes:
        if self.has_key:
            return super().join_shown(shown, host, request, now_s)
        return self._ask("join", shown=shown, host=host.encode(), request=request)

    def renew_shown(self, shown: bytes, request: bytes, proof: bytes, now_s: float) -> bytes:
        if self.has_key:
            return super().renew_shown(shown, request, proof, now_s)
        return self._ask("renew", shown=shown, request=request, proof=proof.hex().encode())

    def signed_list(self) -> bytes:
        return super().signed_list() if self.has_key else self._ask("list")

    def _ask(self, op: str, **given: bytes) -> bytes:
        """Raises Unavailable, or Refusal with the authority's reason."""
        texts = {key: value.decode("ascii", "replace") for key, value in given.items()}
        answer = local.ask(self._socket, {"op": op, **texts}, TIMEOUT_S)
        return str(answer.get("made", "")).encode("ascii", "replace")


class Signer:
    """Answers for `lbd authority`. The asking process may be compromised: see `trust.evidence`."""

    def __init__(self, authority: Authority, uid: int) -> None:
        self._authority = authority
        self._uid = uid

    def answer(self, asked: "Json", caller: "Caller", now_s: float) -> "Json":
        """Raises LbdError."""
        if caller.uid not in (0, self._uid):
            raise local.Refusal("only this host's daemons may ask", "denied")

        def given(key: str) -> bytes:
            return str(asked.get(key, "")).encode("utf-8", "replace")

        match asked.get("op"):
            case "join":
                host = str(asked.get("host", ""))
                made = self._authority.join_shown(given("shown"), host, given("request"), now_s)
            case "renew":
                try:
                    proof = bytes.fromhex(str(asked.get("proof", "")))
                except ValueError:
                    raise PeerError("not a signature") from None
                made = self._authority.renew_shown(given("shown"), given("request"), proof, now_s)
            case "list":
                made = self._authority.signed_list()
            case _:
                raise local.Refusal("the authority does not know this question")
        return {"made": made.decode("ascii")}
