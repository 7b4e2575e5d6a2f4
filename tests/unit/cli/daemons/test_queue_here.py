"""How a host learns that it is to run the dispatcher, and the dispatcher the cluster's settings."""

import asyncio
from dataclasses import replace

from lbd.cli.daemons.cluster_settings import ClusterSettings
from lbd.cli.daemons.lbm import with_queue
from lbd.cli.daemons.queue_start import WANTED, DispatcherStart
from lbd.config.cluster import placed, shared_text
from lbd.config.dispatch import DispatchConfig
from lbd.config.schema import Config, HostConfig
from lbd.lim.core.messages import Settings
from lbd.lim.settings_file import SettingsFile
from lbd.process.service_manager import DISPATCHER_WANTED
from lbd.process.stop import Stop


def named(*hosts, **more):
    values = {**placed(hosts), **{f"dispatch.{key}": one for key, one in more.items()}}
    return Settings(1, saved={name: shared_text(name, value) for name, value in values.items()})


def config(tmp_path, host="h1"):
    own = HostConfig(name="h1", runtime_dir=str(tmp_path), state_dir=str(tmp_path))
    return Config(host=own, dispatch=DispatchConfig(host=host))


class Manager:
    def __init__(self):
        self.said = []

    def report(self, line):
        self.said.append(line)
        return True


def test_the_service_manager_is_asked_once_each_time_this_host_is_named(tmp_path):
    manager = Manager()
    start = DispatcherStart(config(tmp_path), Stop(report=manager.report))
    for settings in (Settings(), named("h2"), named("h2", "h1"), named("h1"), named(), named("h1")):
        start.follow(settings)
    assert manager.said == [DISPATCHER_WANTED] * 2
    assert (tmp_path / WANTED).exists()  # systemd watches this file


def test_the_file_alone_starts_nothing(tmp_path):
    manager = Manager()
    DispatcherStart(config(tmp_path, "h1"), Stop(report=manager.report)).follow(Settings(3))
    assert manager.said == []


async def test_the_dispatcher_adopts_what_the_lim_has_saved(tmp_path):
    file, stop = SettingsFile(tmp_path), asyncio.Event()
    shared = ClusterSettings(config(tmp_path))
    assert shared.is_named()
    following = asyncio.create_task(shared.follow(stop))
    ended = shared.start()
    file.keep_settings(named("h1", lease_s=20.0))
    await asyncio.wait_for(ended.wait(), 5)
    assert (shared.config.dispatch.lease_s, shared.is_named()) == (20.0, True)
    ended = shared.start()
    file.keep_settings(named())
    await asyncio.wait_for(ended.wait(), 5)
    assert not shared.is_named()
    ended = shared.start()
    stop.set()
    await asyncio.wait_for(ended.wait(), 5)
    await following


async def test_unrelated_settings_do_not_disturb_the_dispatcher(tmp_path):
    file, stop = SettingsFile(tmp_path), asyncio.Event()
    file.keep_settings(named("h1"))
    shared = ClusterSettings(config(tmp_path))
    before, ended = shared.config, shared.start()
    saved = named("h1").saved | {"lim.min_gain": "0.5"}
    file.keep_settings(Settings(2, saved=saved))
    assert not shared._look()
    assert (shared.config is before, ended.is_set(), stop.is_set()) == (True, False, False)


async def test_the_dispatcher_adopts_its_own_store_with_the_settings(tmp_path):
    """lbd.toml has named PostgreSQL for some time when `lbctl queue enable h1,h2` comes."""
    file = tmp_path / "lbd.toml"
    file.write_text('[dispatch]\nhost = "h1"\n')
    own = replace(config(tmp_path), path=str(file))
    shared = ClusterSettings(own)
    file.write_text('[dispatch]\nhost = "h1"\nstore = "postgresql://lbd@db/lbd"\n')
    stop = asyncio.Event()
    ended, following = shared.start(), asyncio.create_task(shared.follow(stop))
    SettingsFile(tmp_path).keep_settings(named("h1", "h2"))
    await asyncio.wait_for(ended.wait(), 5)
    assert shared.config.dispatch.store == "postgresql://lbd@db/lbd"
    file.write_text("[dispatch\n")
    ended = shared.start()
    SettingsFile(tmp_path).keep_settings(named("h1"))
    await asyncio.wait_for(ended.wait(), 5)
    assert shared.config.dispatch.store == "postgresql://lbd@db/lbd"
    stop.set()
    await following


def test_an_lbm_knows_of_the_queue_before_the_lim_answers(tmp_path):
    """When both were restarted, `lbctl jobs` said "no jobs" for a moment."""
    own = config(tmp_path, host="")
    assert with_queue(own) == own
    SettingsFile(tmp_path).keep_settings(named("h2", "h3"))
    assert with_queue(own).dispatch.hosts == ("h2", "h3")
