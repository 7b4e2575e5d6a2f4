"""This host's identity for its LIM, and the other hosts named in the configuration."""

import time
from pathlib import Path

from lbd import __version__
from lbd.config.schema import Config
from lbd.lim.core import messages as m
from lbd.lim.core.settings import InForce
from lbd.lim.core.state import Identity
from lbd.lim.core.table import UNLISTED_RANK
from lbd.lim.known_hosts import KnownHosts
from lbd.lim.settings_file import SettingsFile
from lbd.load import sampler as kernel
from lbd.model import HostId, target_of
from lbd.process.own_directory import STATE, not_writable


def identity_of(
    config: Config, kept: SettingsFile, cores: float, *, alone: bool, signs: bool
) -> Identity:
    """`alone`: there is no network. `signs`: hosts have certificates, so a policy must be signed.
    Raises LbdError if the speed of this host cannot be saved."""
    base = InForce(config.lim, config.load, config.log)
    state_dir = Path(config.host.state_dir)
    try:
        speed = kernel.core_speed(config.host.speed, state_dir)
    except OSError as problem:
        raise not_writable(STATE, state_dir, problem) from problem
    settings = kept.resumed(base, signs=signs)
    clock_ms = time.time_ns() // 1_000_000
    if (above := kept.incarnation() + 1) > clock_ms:
        kept.keep_incarnation(above)
    return Identity(
        cluster=config.cluster.name,
        me=own_member(config, max(clock_ms, above)),
        clock_ms=clock_ms,
        others=() if alone else other_members(config),
        join_target="" if alone else join_target(config),
        cores=cores,
        speed=speed,
        # A backup has the note of a drain, not the host's own record.
        drained=kept.drained() or config.host.name in settings.drain_notes,
        settings=settings,
        remembered=() if alone else KnownHosts(state_dir, config.cluster.name).resumed(),
        is_strict=signs and bool(config.admin.settings_hosts),
        is_proved=signs,
    )


def join_target(config: Config) -> str:
    """Returns "" on the host that others join through, since it would find its own name taken."""
    own = target_of(config.host.address, config.lim.port)
    return config.cluster.join if config.cluster.join != own else ""


def others_met(config: Config) -> dict[str, str]:
    """Returns the LIMs of the other hosts that were met before a restart, or that lbd.toml names:
    name -> "address:port". The one to join through may have no name yet, ""."""
    met = KnownHosts(Path(config.host.state_dir), config.cluster.name).resumed()
    members = [*met, *other_members(config)]
    found = {str(one.name): one.lim_target for one in members if one.name != config.host.name}
    at = join_target(config)
    return {**found, **({"": at} if at and at not in found.values() else {})}


def own_member(config: Config, incarnation: int) -> m.Member:
    host = config.host
    ranks = {entry.name: rank for rank, entry in enumerate(config.cluster.hosts)}
    return m.Member(
        name=HostId(host.name),
        address=host.address,
        lim_port=config.lim.port,
        lbm_port=config.lbm.port,
        rank=ranks.get(host.name, UNLISTED_RANK),
        incarnation=incarnation,
        version=__version__,
    )


def other_members(config: Config) -> list[m.Member]:
    return [
        m.Member(HostId(entry.name), entry.address, entry.lim_port, entry.lbm_port, rank, 0)
        for rank, entry in enumerate(config.cluster.hosts)
        if entry.name != config.host.name
    ]
