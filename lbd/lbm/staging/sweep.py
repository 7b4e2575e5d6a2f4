"""Removes what queued jobs have taken along, and their notes, once nobody can want them."""

import asyncio
import contextlib
import time
from collections.abc import Set

from lbd.config.dispatch import DispatchConfig
from lbd.lbm.staging.open_notes import OpenNotes
from lbd.lbm.staging.pack_store import DAY_S, NOTE, PACK, PackStore

SWEEP_EVERY_S = 3600.0


async def sweep(store: PackStore, notes: OpenNotes, own: DispatchConfig) -> None:
    """Runs until cancelled. The jobs of another ledger than the queue's may go on once that is
    back, but not for ever: their notes take memory of their user's."""
    while True:
        ledger = notes.ledger
        ours = {name for name, one in notes.items() if one.ledger == ledger or not ledger}
        others = notes.keys() - ours
        days = own.output_keep_days, own.jobs_keep_days
        await asyncio.to_thread(remove_old, store, *days, ours, others)
        names = await asyncio.to_thread(store.names)
        for name in others - names:
            notes.pop(name, None)
        store.keep(names)
        await asyncio.sleep(SWEEP_EVERY_S)


def remove_old(
    store: PackStore,
    ended_days: float,
    unknown_days: float,
    open_names: set[str],
    strangers: Set[str] = frozenset(),
) -> None:
    """Removes packs and notes of jobs that ended so long ago (a note is written when its last job
    ends), and those of no known job. `strangers`: those of another ledger's jobs."""
    for path in store.files():
        name = path.name.partition(".")[0]
        if name in open_names:
            continue
        note = store.root / (name + NOTE)
        with contextlib.suppress(OSError):
            days = ended_days if note.exists() and name not in strangers else unknown_days
            written_s = (note if note.exists() else path).stat().st_mtime
            if written_s < time.time() - days * DAY_S:
                if path == note:  # a pack goes before its note
                    (store.root / (name + PACK)).unlink(missing_ok=True)
                path.unlink(missing_ok=True)
