"""A ledger's rows, the only thing that outlives a simulated dispatcher.

It stores what the real ledger's statements store of jobs and attempts, as far as a starting
dispatcher reads it. A full disk accepts neither submissions nor changes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from lbd.dispatch.core.ledger_rows import Accepted, AttemptRow, JobRow, LedgerTrouble, Submission
from lbd.dispatch.core.records import Begin, Changed, Fate, Met, Record, StopAsked, Updated
from lbd.model import ENDED_STATES, JobState
from lbd.sim.faults.messages import Key
from lbd.text.index_list import runs_text

ENDED = {state.value for state in ENDED_STATES}


@dataclass(slots=True)
class Ledger:
    is_full: bool = False
    longest_lease_s: float = 0.0  # that may be in force
    jobs: dict[int, JobRow] = field(default_factory=dict)
    attempts: dict[Key, AttemptRow] = field(default_factory=dict)

    def submit(self, sent: Submission, unix_s: float) -> Accepted:
        self._check_room()
        first = len(self.jobs) + 1
        parallelism, sigma = sent.speedup or (None, None)
        for number, index in enumerate(sent.array_indexes(), first):
            self.jobs[number] = JobRow(
                number, first, sent.user, sent.uid, sent.origin, sent.name, sent.command,
                sent.slots,
                sent.may_restart, sent.only, sent.excluded, index, JobState.PENDING.value, 1, 0, 0,
                "", "", unix_s, None, None, None, None, 0, "", sent.slots_most, None,
                sent.priority, None, sent.target, sent.deadline,
                gang=sent.gang, limit_s=sent.limit_s,
                predicted_s=sent.foretold.raw_s if number == first else None,
                parallelism=parallelism, sigma=sigma, work_s=sent.work_s,
                first=first, count=sent.count, indexes=runs_text(sent.runs), at_once=sent.at_once,
                after=sent.after, not_before=sent.not_before, needs=sent.needs,
            )  # fmt: skip
        return Accepted(first, first, sent.count, is_new=True)

    def record(self, changes: Sequence[Record], unix_s: float) -> None:
        """Records all changes or none."""
        self._check_room()
        for change in changes:
            match change:
                case Begin():
                    self._begin(change, unix_s)
                case Changed():
                    self._change(change, unix_s)
                case Updated():
                    for row in [
                        one for one in self.jobs.values() if one.submission == change.submission
                    ]:
                        self.jobs[row.id] = replace(
                            row, priority=change.priority, name=change.name, limit_s=change.limit_s
                        )
                case Met():
                    self.jobs[int(change.job)] = replace(self.jobs[int(change.job)], met=True)
                case StopAsked():
                    key = change.job, change.attempt
                    self.attempts[key] = replace(self.attempts[key], stop_reason=change.stop_reason)

    def live(self) -> list[JobRow]:
        return [row for row in self.jobs.values() if row.state not in ENDED]

    def ended(self) -> list[JobRow]:
        return [row for row in self.jobs.values() if row.state in ENDED]

    def ended_otherwise(self, first: int, last: int) -> tuple[int, bool]:
        rows = [self.jobs[number] for number in range(first, last + 1)]
        return len(rows), any(row.state in ENDED and row.state != "done" for row in rows)

    def last_attempt(self, row: JobRow) -> AttemptRow | None:
        ours = [a for a in self.attempts.values() if a.job == row.id]
        return max(ours, key=lambda attempt: attempt.number, default=None)

    def _check_room(self) -> None:
        if self.is_full:
            raise LedgerTrouble("the disk is full", passes=True)

    def _begin(self, c: Begin, unix_s: float) -> None:
        self.attempts[c.job, c.attempt] = AttemptRow(
            int(c.job), c.attempt, c.host, c.tier, c.cutoff_s, Fate.LEASED.value, unix_s,
            None, None, None, None, "", c.slots,
        )  # fmt: skip
        row = self.jobs[int(c.job)]
        self.jobs[row.id] = replace(
            row, attempt=c.attempt, tier=c.tier, host=c.host, reason="", slots_held=c.slots
        )

    def _change(self, c: Changed, unix_s: float) -> None:
        key = c.job, c.attempt
        if c.fate is not None and key in self.attempts:
            self.attempts[key] = replace(self.attempts[key], fate=c.fate.value, reason=c.reason)
        row, has_ended = self.jobs[int(c.job)], c.state in ENDED_STATES
        ending = c.ending if has_ended else None
        self.jobs[row.id] = replace(
            row, state=c.state.value, tier=c.tier, attempt=c.attempt, crashes=c.crashes,
            barred=tuple(sorted(c.barred)), reason=c.reason, requeued=c.requeued,
            finished=unix_s if has_ended else None, started=begun(row, c, unix_s),
            exit_status=ending.exit_status if ending else None,
        )  # fmt: skip


def begun(row: JobRow, change: Changed, unix_s: float) -> float | None:
    if change.state is JobState.PENDING:
        return None
    return row.started or (unix_s if change.fate is Fate.RUNNING else None)
