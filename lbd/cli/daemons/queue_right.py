"""Whether this host's dispatcher may run the queue, as far as the other hosts know.

With PostgreSQL the database decides. With a file, another machine may have got this host's name and
a copy of its ledger (`lbctl restore`) while this one was away; both would then run the same jobs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Collection
from pathlib import Path

from lbd.cli.daemons.wiring import Ready
from lbd.config.schema import Config
from lbd.dispatch.ledger.sqlite import has_open_jobs
from lbd.lim.identity import others_met
from lbd.net import transport
from lbd.net.peers import Peers
from lbd.net.standing import Standing
from lbd.net.tls import Tls
from lbd.net.trust_calls import TrustCalls
from lbd.process import last_words
from lbd.process.boot_clock import boot_id
from lbd.process.whole_file import write_whole
from lbd.text.dispatcher_phrases import REVOKED, UNHEARD, WAITS_FOR_WORD
from lbd.text.one_line import one_line
from lbd.text.units import duration_text

log = logging.getLogger(__name__)

LED = "dispatcher.led"  # in the runtime directory: the boot in which a dispatcher led here
MODE, BOOT_ID_BYTES = 0o600, 64
SHOWN_MAX = 3
SILENCE_S = 10.0
MESSAGE_BYTES = 1 << 20


def stand_by(config: Config, ready: Ready, why: str) -> None:
    """Reports why the dispatcher runs, but serves nothing for now. What waits for its start, as
    systemd does before it stops the LBM, goes on."""
    log.warning("%s", why)
    ready(why)
    last_words.leave(config.host.runtime_dir, "dispatcher", why)


class QueueRight:
    def __init__(self, config: Config, tls: Tls, ready: Ready) -> None:
        self._config = config
        self._ready = ready
        self._led = Path(config.host.runtime_dir, LED)
        self._peers = Peers(tls, transport.options(MESSAGE_BYTES, SILENCE_S))
        calls = TrustCalls(tls, self._peers)
        self._standing = Standing(tls, calls, lambda: others_met(config))
        self._has_asked = False

    def leads(self) -> bool:
        return not self._standing.is_out

    async def given(self, file: Path | None, ended: asyncio.Event) -> bool:
        """Waits until this host may lead; from then on `ended` is set as soon as it may not.
        `file`: the ledger, None if it is a database. Returns False if `ended` is set, or should be.

        Nothing can start twice unless the ledger has jobs from before, so only then another host is
        waited for, also if all are held, since they can be released at any time; and not for ever,
        as all others may be off for good. One that comes later still ends it. If this host
        has led since it was booted, its queue has not been away: to wait then would end all that
        runs, whose leases are renewed only by a dispatcher that serves.
        """
        standing, wait_s = self._standing, self._config.dispatch.confirm_s
        standing.ends(ended)
        if file is not None and not (self._has_asked or self._has_led()) and has_open_jobs(file):
            self._has_asked = await standing.confirmed(wait_s, ended, self._say_waits)
            if not self._has_asked and not ended.is_set():
                self._has_asked = True
                log.warning(UNHEARD.format(duration_text(wait_s)))
        if standing.is_out:
            self._say(REVOKED.format(one_line(self._config.host.name)))
            await standing.readmitted(ended)
            return False
        if not ended.is_set():
            self._note_lead()
        return not ended.is_set()

    def _has_led(self) -> bool:
        """Whether a dispatcher has led here since this machine was booted."""
        try:
            return self._led.read_bytes()[:BOOT_ID_BYTES] == boot_id().encode()
        except OSError:
            return False

    def _note_lead(self) -> None:
        with contextlib.suppress(OSError):
            write_whole(self._led, boot_id().encode(), MODE)

    def _say_waits(self, hosts: Collection[str]) -> None:
        names = [one_line(name or self._config.cluster.join) for name in sorted(hosts)]
        shown = ", ".join(names[:SHOWN_MAX]) + (", …" if len(names) > SHOWN_MAX else "")
        self._say(WAITS_FOR_WORD.format(duration_text(self._config.dispatch.confirm_s), shown))

    def _say(self, text: str) -> None:
        stand_by(self._config, self._ready, text)

    async def close(self) -> None:
        await self._peers.close()
