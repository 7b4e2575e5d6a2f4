"""Jobs as those who ask are told of them: with why each waits, and about how long."""

import asyncio
from collections.abc import Sequence

from lbd.dispatch.forecast import Forecast
from lbd.dispatch.ledger.rows import JobRow, Ledger
from lbd.dispatch.lifecycle import Lifecycle
from lbd.dispatch.reasons import waiting_reason
from lbd.dispatch.told import job_told, without_reason
from lbd.model import ENDED_NAMES, JobId
from lbd.rpc.boot_clock import clock_s
from lbd.rpc.gen import dispatch_pb2 as pb

FORECAST_KEPT_S = 30.0
EXPLAINED_MAX = 100  # jobs in one answer
TOLD_AT_ONCE = 500


class Teller:
    def __init__(self, life: Lifecycle, ledger: Ledger) -> None:
        self._life = life
        self._ledger = ledger
        self.forecast = Forecast(life.queues)
        self._forgetting: asyncio.TimerHandle | None = None

    async def tell(self, rows: Sequence[JobRow], *, explained: bool) -> list[pb.JobTold]:
        """Of very many that takes seconds, in which hosts must be heard."""
        told = []
        for row in rows:
            told.append(self._tell(row) if explained else without_reason(row))
            if not len(told) % TOLD_AT_ONCE:
                await asyncio.sleep(0)
        if len(told) > EXPLAINED_MAX:  # how they were predicted takes more than all the rest
            for job in told:
                job.ClearField("predicted_by")
        return told

    def _tell(self, row: JobRow) -> pb.JobTold:
        live = self._life.jobs.get(JobId(str(row.id)))
        unrecorded = self._unrecorded(row)
        if live is None:
            return without_reason(row, unrecorded)
        is_final = live.lease is not None and live.lease.cutoff_s is None
        booked = self._life.queues.books.find(live.job.id)
        if booked is None or booked.host is not None:
            return job_told(row, unrecorded or waiting_reason(self._life, live), is_final)
        now_s = clock_s()
        place, prediction = self.forecast.place(booked, now_s), self.forecast.of(booked, now_s)
        self._forget_forecast()
        reason = unrecorded or waiting_reason(self._life, live, place)
        told = job_told(row, reason, is_final, prediction)
        if isinstance(booked.line, int):  # a tier
            told.tier = booked.line
        return told

    def _unrecorded(self, row: JobRow) -> str:
        """Why what is told of it may be behind, "" if it is not."""
        trouble = self._ledger.trouble if row.state not in ENDED_NAMES else ""
        return f"what becomes of it cannot be recorded: {trouble}" if trouble else ""

    def _forget_forecast(self) -> None:
        """Soon, unless somebody goes on asking: what it knows of many jobs takes room."""
        if self._forgetting is not None:
            self._forgetting.cancel()
        loop = asyncio.get_running_loop()
        self._forgetting = loop.call_later(FORECAST_KEPT_S, self.forecast.forget)
