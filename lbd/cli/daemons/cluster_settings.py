"""The settings for all hosts that this host's LIM has saved, as the dispatcher follows them."""

import asyncio
import contextlib
import logging
from dataclasses import replace
from pathlib import Path

from lbd.config.cluster import is_shared, overlaid
from lbd.config.load import load
from lbd.config.schema import Config
from lbd.errors import ConfigError
from lbd.lim.saved_settings import SavedSettings
from lbd.process.wake_ups import until_next_s

log = logging.getLogger(__name__)

LOOK_S = 0.4


class ClusterSettings:
    """Overlays the configuration with them. Reads the file again when the LIM has changed it."""

    def __init__(self, config: Config) -> None:
        self._base = config
        self._file = SavedSettings(Path(config.host.state_dir))
        self._stamp: object = None
        self._saved: dict[str, str] = {}
        self.config = config
        self._ended = asyncio.Event()
        self._look()

    def start(self) -> asyncio.Event:
        """Returns an event that is set when `config` has changed, or when we must stop."""
        self._ended = asyncio.Event()
        return self._ended

    async def follow(self, stop: asyncio.Event) -> None:
        """Follows the file until `stop` is set."""
        while not stop.is_set():
            with contextlib.suppress(TimeoutError):
                now_s = asyncio.get_running_loop().time()
                async with asyncio.timeout(until_next_s(LOOK_S, now_s)):
                    await stop.wait()
            if self._look() or stop.is_set():
                self._ended.set()

    def _look(self) -> bool:
        """Returns whether the settings have changed."""
        if (stamp := self._file.stamp()) == self._stamp:
            return False
        self._stamp = stamp
        found = self._file.saved()
        saved = {name: text for name, text in found.items() if is_shared(name)}
        if saved == self._saved:
            return False
        self._saved = saved
        self._base = with_own_store(self._base)
        self.config, faults = overlaid(self._base, saved)
        for fault in faults:
            log.warning("%s", fault)
        return True

    def is_named(self) -> bool:
        """Returns whether this host should run the dispatcher."""
        return self.config.host.name in self.config.dispatch.hosts


def with_own_store(config: Config) -> Config:
    """Returns the configuration with the present `dispatch.store` of this host's file. An
    administrator sets it by hand on each host, and then lets several of them lead. An unreadable
    file changes nothing."""
    if not config.path:
        return config
    try:
        store = load(config.path, config.overrides).dispatch.store
    except ConfigError as problem:
        log.warning("dispatch.store is not changed: %s", problem)
        return config
    return replace(config, dispatch=replace(config.dispatch, store=store))
