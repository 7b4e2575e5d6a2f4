"""Jobs that cannot begin just now: held, and tried again later, then later still. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lbd.dispatch.hosts import Terms
from lbd.dispatch.jobs import Live
from lbd.model import JobId

AWAY = "files"  # the stage at which a host refuses an attempt whose files cannot be had
HELD = "held for a while: "  # begins the reason


@dataclass(slots=True)
class Pauses:
    _counts: dict[JobId, int] = field(default_factory=dict)
    _until_s: dict[JobId, float] = field(default_factory=dict)

    def begin(self, live: Live, terms: Terms, now_s: float) -> str:
        """Why it is held."""
        job = live.job.id
        count = self._counts[job] = self._counts.get(job, 0) + 1
        pause_s = terms.aside_s * 2.0 ** min(count - 1, 30)
        return self.until(live, now_s + min(pause_s, terms.aside_max_s))

    def until(self, live: Live, until_s: float) -> str:
        """Why it is held."""
        self._counts.setdefault(live.job.id, 0)
        self._until_s[live.job.id] = until_s
        return HELD + live.reason

    def over(self, jobs: Mapping[JobId, Live], now_s: float) -> list[JobId]:
        """Those to be tried again, of `jobs`, which have not ended; what has is forgotten."""
        for job in [job for job in self._counts if job not in jobs]:
            del self._counts[job]
            self._until_s.pop(job, None)
        found = [job for job, until_s in self._until_s.items() if now_s >= until_s]
        for job in found:
            del self._until_s[job]
        return [job for job in found if jobs[job].held.startswith(HELD)]
