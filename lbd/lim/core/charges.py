"""Picks that no sample shows yet.

A host that was just picked is charged for the job at once; otherwise the next ten commands would
all go to the same idle host. The charge counts 1 until a sample newer than the pick arrives. The
smoothed load in that sample shows only part of the job, so the charge then fades as the sample's
share of it grows: exp(-(sampled_at - picked_at) / T). It is removed at the job's end, when it has
nearly faded, and in any case after `limit_s`, so that a lost message never leaves one behind. (LSF
lets it fade over three exchange intervals. In CENTRAL as printed in the thesis it would stay as
long as the host's load is unchanged, since unchanged loads are not sent; here silence counts as a
sample, see `Table`.)
"""

import math

from lbd.model import HostId, JobId

FADED = 0.02
CHARGES_MAX = 4096  # over all hosts; beyond that the oldest is dropped


class HostCharges:
    """The charges of one host."""

    __slots__ = ("_picked_at_s", "_weights", "total")

    def __init__(self) -> None:
        self._picked_at_s: dict[JobId, float] = {}
        self._weights: dict[JobId, float] = {}
        self.total = 0.0  # tasks

    def __len__(self) -> int:
        return len(self._weights)

    def picked_at_s(self, job: JobId) -> float:
        return self._picked_at_s[job]

    def picked_since(self, moment_s: float) -> int:
        """Returns how many jobs were picked since then."""
        if not self._picked_at_s:
            return 0
        return sum(at_s >= moment_s for at_s in self._picked_at_s.values())

    def add(self, job: JobId, now_s: float) -> None:
        self.drop(job)
        self._picked_at_s[job] = now_s
        self._weights[job] = 1.0
        self.total += 1.0

    def drop(self, job: JobId) -> float:
        """Removes a charge. Returns when the job was picked; -inf if it has no charge here."""
        weight = self._weights.pop(job, None)
        if weight is None:
            return -math.inf
        self.total = self.total - weight if self._weights else 0.0
        return self._picked_at_s.pop(job)

    def sampled(self, sampled_at_s: float, smoothing_s: float) -> list[JobId]:
        """A sample taken at that time arrived. Returns the jobs whose charge has faded away."""
        gone = []
        for job, picked_at_s in self._picked_at_s.items():
            if picked_at_s <= sampled_at_s:
                weight = math.exp((picked_at_s - sampled_at_s) / smoothing_s)
                self._weights[job] = weight
                if weight < FADED:
                    gone.append(job)
        self._settle(gone)
        return gone

    def expire(self, before_s: float) -> list[JobId]:
        """Drops the jobs picked before that time, and returns them."""
        gone = [job for job, at_s in self._picked_at_s.items() if at_s < before_s]
        self._settle(gone)
        return gone

    def _settle(self, gone: list[JobId]) -> None:
        for job in gone:
            del self._picked_at_s[job], self._weights[job]
        self.total = sum(self._weights.values())


class ChargeBook:
    """Every charge, and which host each job is charged to."""

    def __init__(self) -> None:
        self.by_host: dict[HostId, HostCharges] = {}  # the hosts that are charged for some job
        self._host_of: dict[JobId, HostId] = {}
        self._none = HostCharges()

    def of(self, host: HostId) -> HostCharges:
        return self.by_host.get(host, self._none)

    def host_of(self, job: JobId) -> HostId | None:
        return self._host_of.get(job)

    def picked_at_s(self, job: JobId) -> float:
        host = self._host_of.get(job)
        return -math.inf if host is None else self.by_host[host].picked_at_s(job)

    def hosts(self) -> list[HostId]:
        """Returns the hosts that are charged for some job."""
        return [host for host, charges in self.by_host.items() if charges.total]

    def jobs(self) -> int:
        return len(self._host_of)

    def add(self, host: HostId, job: JobId, now_s: float) -> HostId | None:
        """Charges `host`; a job is charged once. Returns the host it was charged to before."""
        before, _ = self.drop(job)
        charges = self.by_host.get(host)
        if charges is None:
            charges = self.by_host[host] = HostCharges()
        charges.add(job, now_s)
        self._host_of[job] = host
        if len(self._host_of) > CHARGES_MAX:
            self.drop(next(iter(self._host_of)))
        return before

    def drop(self, job: JobId) -> tuple[HostId | None, float]:
        """Removes a job's charge. Returns the host that was charged, and since when."""
        host = self._host_of.pop(job, None)
        if host is None:
            return None, -math.inf
        charges = self.by_host[host]
        picked_at_s = charges.drop(job)
        if not charges:
            del self.by_host[host]
        return host, picked_at_s

    def sampled(self, host: HostId, sampled_at_s: float, smoothing_s: float) -> None:
        if host in self.by_host:
            self._forget(self.by_host[host].sampled(sampled_at_s, smoothing_s))
            self._settle(host)

    def expire(self, now_s: float, limit_s: float) -> list[HostId]:
        """Drops charges older than `limit_s`. Returns the hosts that had some."""
        touched: list[HostId] = []
        oldest = next(iter(self._host_of), None)  # in the order they were added
        if oldest is None or self.picked_at_s(oldest) >= now_s - limit_s:
            return touched
        for host, charges in self.by_host.items():
            if gone := charges.expire(now_s - limit_s):
                self._forget(gone)
                touched.append(host)
        for host in touched:
            self._settle(host)
        return touched

    def forget_host(self, host: HostId) -> None:
        if self.by_host.pop(host, None) is not None:
            self._forget([job for job, at in self._host_of.items() if at == host])

    def _settle(self, host: HostId) -> None:
        if not self.by_host[host]:
            del self.by_host[host]

    def _forget(self, jobs: list[JobId]) -> None:
        for job in jobs:
            self._host_of.pop(job, None)
