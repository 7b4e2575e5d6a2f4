"""Keeps a host's trust current: renews its certificate in time and exchanges news of revocations.

The authority's host sends a revocation to every other host at once. Each host also asks at
intervals: the authority's host or, while that is away, any other. The list is signed, so it does
not matter who passes it on.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from random import Random

from lbd.errors import LbdError, Unavailable
from lbd.net.gen import trust_pb2 as pb
from lbd.net.peers import Peers
from lbd.net.tls import LOOK_S, Tls
from lbd.net.trust_calls import TrustCalls
from lbd.process.wake_ups import next_moment

log = logging.getLogger("lbd.tls")

RENEW_AT_SHARE = 1 / 3  # renew when this fraction of its life is left
RETRY_SHARE = 1 / 60  # of its life, between two attempts if one fails
TOLD_AT_ONCE = 32
ASKED_MAX = 4  # hosts asked for a list at a time, until one answers
Hosts = Callable[[], dict[str, str]]  # the other hosts' LIMs: name -> "address:port"


class Upkeep:
    def __init__(
        self, tls: Tls, peers: Peers, hosts: Hosts, check_s: float, remembered: Hosts = dict
    ) -> None:
        """`remembered`: hosts met before, asked while none is known. So a machine learns that it
        was replaced while it was away: by then no host lets it in again."""
        self._tls = tls
        self._calls = TrustCalls(tls, peers)
        self._hosts = hosts
        self._remembered = remembered
        self._check_s = check_s
        self._rng = Random()
        self._reported = 0  # the number of the list last sent to all others
        self._renew_at_s = 0.0
        self._check_at_s = 0.0
        self._said = ""

    async def run(self) -> None:
        """Renews and exchanges for as long as the daemon runs."""
        while True:
            period_s = min(LOOK_S, self._check_s)
            await next_moment(period_s)
            self._tls.look()
            now_s = time.time()
            try:
                await self._renew_if_due(now_s)
                await self._send_update()
                if now_s >= self._check_at_s:
                    self._check_at_s = now_s + self._check_s
                    await self._exchange_updates()
            except LbdError as problem:
                self._complain(str(problem))

    def _complain(self, text: str) -> None:
        """Logs a message unless it was the last one logged."""
        if text != self._said:
            log.warning("%s", text)
        self._said = text

    # -- our certificate -------------------------------------------------------------------------

    async def _renew_if_due(self, now_s: float) -> None:
        begin_s, end_s = self._tls.credentials.valid_s
        life_s = end_s - begin_s
        if end_s - now_s > life_s * RENEW_AT_SHARE or now_s < self._renew_at_s:
            return
        self._renew_at_s = now_s + life_s * RETRY_SHARE
        try:
            await self._renew(now_s)
        except LbdError as problem:
            left = f"{end_s - now_s:.0f} s left" if now_s < end_s else "expired, by the clock here"
            raise Unavailable(
                f"this host's certificate cannot be renewed ({left}): {problem}"
            ) from None

    async def _renew(self, now_s: float) -> None:
        from lbd.trust.certificates import new_key, new_request
        from lbd.trust.evidence import check_issued, proof_of_renewal
        from lbd.trust.files import Credentials

        own, key = self._tls.own_name, new_key()
        request = new_request(key, own)
        before = self._tls.credentials
        proof = proof_of_renewal(before.key, request)
        if (authority := self._tls.authority) is not None:
            shown = before.certificate.encode()
            made = await asyncio.to_thread(authority.renew_shown, shown, request, proof, now_s)
        else:
            asked = pb.RenewRequest(request=request, proof=proof)
            made = (
                await self._calls.ask(*self._home(), "Renew", asked, pb.RenewReply)
            ).certificates
            check_issued(self._tls.files.read_authority(), made, own, key)
        self._tls.files.write_credentials(Credentials(key, made))
        self._tls.look()

    def _home(self) -> tuple[str, str]:
        """Returns the authority's host and its LIM. Raises Unavailable if unknown."""
        home, target = self._tls.files.read_home()
        if not home:
            raise Unavailable(f"{self._tls.files.home} does not say where the authority is")
        return home, self._hosts().get(home, target)

    # -- news ------------------------------------------------------------------------------------

    async def _send_update(self) -> None:
        """Sends a new revocation list from the authority's host to all others; also the current one
        at start, since the authority may have moved while it was down."""
        if self._tls.authority is None or self._tls.revocations.number == self._reported:
            return
        self._reported = self._tls.revocations.number
        turns = asyncio.Semaphore(TOLD_AT_ONCE)

        async def send(name: str, target: str) -> None:
            async with turns:
                try:
                    await self._calls.exchange(name, target)
                except LbdError as problem:
                    log.info("could not send the revocation list: %s", problem)

        async with asyncio.TaskGroup() as group:
            for name, target in self._hosts().items():
                group.create_task(send(name, target))

    async def _exchange_updates(self) -> None:
        """Exchanges with the authority's host, or else with any other: that one passes on what it
        knows, and may have become the authority's host."""
        others, home = self._hosts() or self._remembered(), self._tls.files.read_home()[0]
        others.pop(home, None)
        try:
            if home != self._tls.own_name:
                return await self._calls.exchange(*self._home())
        except Unavailable:
            pass
        trouble: LbdError | None = None
        for name in self._rng.sample(sorted(others), min(ASKED_MAX, len(others))):
            try:
                return await self._calls.exchange(name, others[name])
            except Unavailable as problem:
                trouble = problem
        if trouble is not None:
            raise trouble
