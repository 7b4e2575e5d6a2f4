"""What an LBM answers to `metrics`: see lbd/metrics/core/table.py."""

from collections import Counter

from lbd.lbm.inbound.context import InboundContext
from lbd.lbm.outbound.context import OutboundContext
from lbd.local.json_socket import Json
from lbd.model import JobState
from lbd.process.boot_clock import clock_s
from lbd.process.written_disks import disk_metrics, disks_of, written

STATES = (JobState.PENDING.value, JobState.RUNNING.value, JobState.SUSPENDED.value)


def lbm_metrics(host: InboundContext, home: OutboundContext) -> Json:
    jobs: Counter[tuple[str, str]] = Counter()
    for job in host.jobs.running.values():
        if not job.queued_at:
            jobs["foreign" if job.foreign else "attached", job.state.value] += 1
    kinds = ("attached", "foreign")
    return {
        "slots": host.slots.total,
        "slots_used": host.slots.used,
        "commands_waiting": len(host.slots.waiting) + len(home.room.waiting),
        "jobs": [[kind, state, jobs[kind, state]] for kind in kinds for state in STATES],
        "jobs_not_recorded": home.usage.lost,
        "keeper_up": bool(host.link.pid),
        **home.usage.ended_jobs.answer(),
        **lease_metrics(home),
        **disk_metrics(disks_of(written(host.config))),
    }


def lease_metrics(home: OutboundContext) -> Json:
    if home.queue is None:
        return {}
    leases = home.queue.leases
    return {
        "attempts_held": len(leases.until_s),
        "lease_margin_seconds": leases.margins.answer(),
        "lease_margin_min_seconds": (
            min(leases.until_s.values()) - clock_s() if leases.until_s else None
        ),
    }
