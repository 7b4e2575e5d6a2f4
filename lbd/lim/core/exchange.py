"""When load is reported to others: the information policy (Zhou 1987, sections 3.3 and 4.2.2).

A host reports to the centre when its load has changed by more than a threshold since its last
report, not while it stays above the ceiling T_u, and always once in a while so that silence means
trouble. The centre sends every host the changes each period P (`publication`). Under CENTRAL the
centre keeps the changes to itself; under DISTED each host sends its own changes to every other
host. A change in whether a host may be picked at all (drained, no LBM, no free slot) is sent in the
next period under every algorithm. Under the remaining algorithms only that and the keep-alive are
sent.
"""

from lbd.config.schema import LimConfig
from lbd.lim.core.messages import Sample
from lbd.model import LoadVector


def is_as_eligible(new: LoadVector, old: LoadVector) -> bool:
    """Whether the same commands may be sent to the host as before."""
    had_slot = old.slots_used < old.slots_total
    return (
        new.accepting == old.accepting
        and new.closed == old.closed
        and (new.slots_used < new.slots_total) == had_slot
        and new.hog == old.hog
        and (new.facts is old.facts or new.facts == old.facts)
    )


def worth_reporting(
    sample: Sample, told: Sample | None, params: LimConfig, exchanges_load: bool
) -> bool:
    """Returns whether `sample` differs enough from the last report."""
    if told is None or told.incarnation != sample.incarnation:
        return True
    new, old = sample.vector, told.vector
    if new is old and sample.drained == told.drained:
        return False
    ceiling = params.report_ceiling
    exchanges_it = exchanges_load and (new.index <= ceiling or old.index <= ceiling)
    if exchanges_it and abs(new.index - old.index) > params.change_threshold:
        return True  # tested first, as it is the usual reason
    if sample.drained != told.drained or not is_as_eligible(new, old):
        return True
    jobs = (new.slots_used, new.slots_total, new.jobs_local, new.jobs_foreign)
    return exchanges_it and jobs != (
        old.slots_used, old.slots_total, old.jobs_local, old.jobs_foreign
    )  # fmt: skip


class Reporter:
    """Our own reports: at most one per period, to each acting centre."""

    def __init__(self) -> None:
        self._reported: Sample | None = None
        self._reported_at_s = 0.0

    def again(self) -> None:
        """The last report was lost, or the centre is new: report again in the next period."""
        self._reported = None

    def has_changed(self, sample: Sample, params: LimConfig, exchanges_load: bool) -> bool:
        return worth_reporting(sample, self._reported, params, exchanges_load)

    def was_silent(self, now_s: float, params: LimConfig) -> bool:
        """Whether a keep-alive is due, or nothing was reported yet."""
        return self._reported is None or now_s - self._reported_at_s >= params.keepalive_s

    def has_reported(self, sample: Sample, now_s: float) -> None:
        self._reported, self._reported_at_s = sample, now_s
