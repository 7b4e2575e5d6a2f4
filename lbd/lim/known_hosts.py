"""The hosts that have joined, saved in a file so that a restarted LIM finds them.

It is a convenience: whatever happens to the file, the LIM goes on and logs the failure once.
"""

import asyncio
import json
import logging
from pathlib import Path

from lbd.errors import LbdError
from lbd.lim.core import messages as m
from lbd.lim.core.state import LimState
from lbd.lim.core.table import NEVER, UNLISTED_RANK, Table
from lbd.net import convert
from lbd.net.gen import lim_pb2 as pb
from lbd.process.whole_file import write_whole

log = logging.getLogger(__name__)

NAME = "hosts.json"
LOOK_S = 10.0
HOSTS_MAX = 10_000
FILE_BYTES_MAX = HOSTS_MAX * 600


class KnownHosts:
    def __init__(self, state_dir: Path, cluster: str) -> None:
        self._path = state_dir / NAME
        self._cluster = cluster
        self._written: list[m.Member] | None = None
        self._in_trouble = False

    def resumed(self) -> list[m.Member]:
        """Returns the saved hosts; none if the file is damaged or of another cluster."""
        try:
            with self._path.open("rb") as file:
                return read(file.read(FILE_BYTES_MAX), self._cluster)
        except FileNotFoundError:
            pass
        except (OSError, LbdError, ValueError, TypeError, KeyError, RecursionError) as problem:
            log.warning("ignored %s: %r", self._path, problem)
        return []

    async def follow(self, state: LimState) -> None:
        """Saves the hosts whenever they change, until cancelled, and then once more."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if (others := self._others(state)) is not None:
                    await loop.run_in_executor(None, self._write, others)
        finally:
            if (others := self._others(state)) is not None:
                self._write(others)

    def _others(self, state: LimState) -> list[m.Member] | None:
        """Returns the hosts to save; None if these are saved."""
        if self._written is None:
            self._written = self.resumed()
        now = joined(state.table)
        if not now:  # we have just started, or all others are gone, of which some were forgotten
            forgotten = state.membership.tombstones
            now = [one for one in self._written if one.name not in forgotten]
        if now == self._written:
            return None
        self._written = now
        return now

    def _write(self, hosts: list[m.Member]) -> None:
        try:
            write_whole(self._path, written(hosts, self._cluster), 0o600)
            self._in_trouble = False
        except OSError as problem:
            if not self._in_trouble:
                log.warning("cannot save the known hosts in %s: %s", self._path, problem)
            self._in_trouble = True


def joined(table: Table) -> list[m.Member]:
    """Returns the hosts that are not configured and that we have heard from directly, not just
    heard of."""
    known = (table.entries[name] for name in sorted(table.joined))
    heard = [entry.member for entry in known if entry.heard_at_s != NEVER and not entry.left]
    return [before_hello(member) for member in heard[:HOSTS_MAX]]


def before_hello(member: m.Member) -> m.Member:
    """Returns what is still true of a host after a restart."""
    return m.Member(member.name, member.address, member.lim_port, member.lbm_port, UNLISTED_RANK, 0)


def written(hosts: list[m.Member], cluster: str) -> bytes:
    rows = [[one.name, one.address, one.lim_port, one.lbm_port] for one in hosts]
    return json.dumps({"cluster": cluster, "hosts": rows}).encode()


def read(data: bytes, cluster: str) -> list[m.Member]:
    """Raises ValueError, TypeError, KeyError, RecursionError, PeerError."""
    found = json.loads(data)
    if found["cluster"] != cluster:
        return []
    rows = [
        pb.Member(name=name, address=address, lim_port=lim_port, lbm_port=lbm_port)
        for name, address, lim_port, lbm_port in found["hosts"][:HOSTS_MAX]
    ]
    return [before_hello(convert.member(row)) for row in rows]
