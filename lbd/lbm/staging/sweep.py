"""Removes what queued jobs have taken along, and their notes, once nobody can want them."""

import asyncio

from lbd.config.dispatch import DispatchConfig
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import PackStore

SWEEP_EVERY_S = 3600.0


async def sweep(store: PackStore, notes: OpenNotes, own: DispatchConfig) -> None:
    """Runs until cancelled. The jobs of another ledger than the queue's may go on once that is
    back, but not for ever: their notes take memory of their user's."""
    while True:
        ledger = notes.ledger
        ours = {name for name, one in notes.items() if one.ledger == ledger or not ledger}
        others = notes.keys() - ours
        days = own.output_keep_days, own.jobs_keep_days
        await asyncio.to_thread(store.sweep, *days, ours, others)
        names = await asyncio.to_thread(store.names)
        for name in others - names:
            notes.pop(name, None)
        store.keep(names)
        await asyncio.sleep(SWEEP_EVERY_S)
