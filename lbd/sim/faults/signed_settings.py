"""The signed settings of a cluster under faults, and hosts that lie about them.

Half of the hosts may set a policy. Production code seals and vets it; a signature is a hash with
its host's key. After every event each host has a policy that an author made, unchanged and no older
than the one it had. Once everything is healed, all hosts have the newest policy that is left.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from lbd.config.schema import LimConfig, LoadConfig
from lbd.errors import PeerError
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core.settings import InForce
from lbd.lim.core.signed import (
    is_same_policy,
    is_whole,
    policy_version,
    saved_part,
    sealed,
    signed_text,
    trial_digest,
    vetted,
)
from lbd.model import HostId
from lbd.sim.faults.lim_cluster import LimCluster, VirtualHost
from lbd.sim.faults.schedule import FaultRun, LimFault

CLUSTER = "test"
FORGED = {"lim.min_gain": 0.9}  # what a liar wants to set
FORGED_SAVED = {"lim.min_gain": "0.9"}
AHEAD = 100  # how far a liar's number is above all others
KINDS = (
    "settings", "settings", "forged", "forged", "restored", "crash", "crash of the centre",
    "partition", "one-way", "loss", "twice", "delay", "stop",
)  # fmt: skip


def signature(host: str, text: bytes) -> bytes:
    return hashlib.sha256(f"key of {host}".encode() + text).digest()


class SignedCluster(LimCluster):
    is_strict = True

    def __init__(
        self, hosts: int, seed: int, params: LimConfig | None = None, loss: float = 0.0
    ) -> None:
        super().__init__(hosts, seed, params, loss)
        self.authors = self.names[: max(1, hosts // 2)]  # liars are among the other hosts
        self.made: dict[tuple[int, str], m.Settings] = {}  # by the seal's counter and author
        self.records: defaultdict[HostId, list[m.Settings]] = defaultdict(list)  # on each disk
        self.liars: set[HostId] = set()

    def change(self, author: HostId, change: e.ChangeSettings) -> None:
        host = self.hosts[author]
        signed = sealed(change, host.state.settings, author, CLUSTER, self.now_s,
                        lambda text: (author.encode(), signature(author, text)))  # fmt: skip
        assert signed.seal is not None
        made = signed.applied_to(host.state.settings, author)
        self.made[signed.seal.counter, author] = made
        self.handle(host, signed)

    def perform(self, host: VirtualHost, actions: Sequence[e.Action]) -> None:
        super().perform(host, actions)
        if any(isinstance(action, e.SaveLasting) for action in actions):
            self.records[host.state.me].append(host.settings_kept)

    # -- who believes what -----------------------------------------------------------------------

    def _arrive(
        self,
        target: str,
        message: m.Message,
        size: int,
        sender: VirtualHost,
        finish: Callable[[m.Message | None], None],
    ) -> None:
        host = self.hosts[self._targets[target]]
        super()._arrive(
            target, self.vetted(host, message), size, sender,
            lambda reply: finish(self.vetted(sender, reply) if reply else None),
        )  # fmt: skip

    def vetted(self, host: VirtualHost, message: m.Message) -> m.Message:
        ours = host.state.settings
        return m.with_settings(
            message, lambda theirs: vetted(ours, theirs, is_strict=True, check=self._check)[0]
        )

    def _check(self, settings: m.Settings) -> None:
        """Raises PeerError."""
        seal = settings.seal
        if seal.author not in self.authors:
            raise PeerError(f"{seal.author} may not")
        signer = seal.certificate.decode()
        if seal.signature != signature(signer, signed_text(CLUSTER, seal, settings)):
            raise PeerError("the signature is wrong")
        if signer != seal.author:
            raise PeerError(f"{signer} has signed in the name of {seal.author}")

    def carried(self, message: m.Message) -> tuple[m.Message, int]:
        """Replaces the settings in a liar's messages."""
        if message.sender in self.liars:
            message = m.with_settings(message, partial(self._forged, message.sender))
        return super().carried(message)

    def _forged(self, liar: HostId, settings: m.Settings) -> m.Settings:
        victim = self.authors[0]
        wanted = replace(
            settings, counter=settings.counter + AHEAD, author=liar, params=FORGED,
            saved=FORGED_SAVED, seal=m.NO_SEAL,
        )  # fmt: skip
        above = m.Seal(settings.seal.counter + AHEAD, victim, trial_digest(wanted))
        own = replace(above, author=liar)
        signed_for_other = signature(liar, signed_text(CLUSTER, above, wanted))
        signed_as_itself = signature(liar, signed_text(CLUSTER, own, wanted))
        older = self.rng.choice([settings, *self.made.values()])
        return self.rng.choice((
            wanted,  # unsigned
            replace(wanted, seal=settings.seal),  # instead of the signed settings
            # in the part that is only on trial
            replace(settings, counter=wanted.counter, params=FORGED),
            # a valid signature of other settings
            replace(wanted, seal=replace(above, certificate=settings.seal.certificate,
                                         signature=settings.seal.signature)),
            replace(wanted, seal=replace(above, certificate=victim.encode(), signature=bytes(32))),
            replace(wanted, seal=replace(above, certificate=liar.encode(),
                                         signature=signed_for_other)),
            replace(wanted, seal=replace(own, certificate=liar.encode(),
                                         signature=signed_as_itself)),
            replace(older, counter=wanted.counter, author=liar),  # valid settings, sent again
        ))  # fmt: skip

    # -- what must hold --------------------------------------------------------------------------

    def check_invariants(self, host: VirtualHost) -> None:
        super().check_invariants(host)
        settings = host.state.settings
        where = f"seed {self.seed}, {host.state.me} at {self.now_s:.3f} s"
        seal = settings.seal
        made = self.made.get((seal.counter, seal.author), m.Settings())
        assert seal == made.seal, f"{where}: a seal that nobody made: {seal}"
        if not is_whole(settings):
            made = saved_part(InForce(self.params, LoadConfig()), made)
        elif not seal.counter:
            made = m.Settings()
        assert is_same_policy(settings, made), f"{where}: not what {seal.author} made: {settings}"


class SignedRun(FaultRun):
    """A run under GLOBAL. Policies are made, forged, sent again and restored from old disks."""

    kinds: Sequence[str] = KINDS

    def __init__(
        self, seed: int, hosts: int = 6, kind: type[SignedCluster] = SignedCluster
    ) -> None:
        super().__init__("GLOBAL", seed, hosts, kind)
        self.where = f"signed settings, seed {seed}"
        assert isinstance(self.cluster, SignedCluster)
        self.signed = self.cluster
        self.restored = 0
        self.forged = 0
        self._newest = (0, "")

    def _begin(self, fault: LimFault) -> None:
        if fault.kind not in ("forged", "restored"):
            super()._begin(fault)
            return
        length_s = fault.until_s - fault.at_s
        if fault.kind == "forged":
            others = [name for name in self.names if name not in self.signed.authors]
            self._lie(others[self.names.index(fault.hosts[0]) % len(others)], length_s)
        else:
            self._crash(fault.hosts[0])
            self.cluster.at(length_s, partial(self._restore, fault.hosts[0]))

    def _change(self, name: HostId, amount: float) -> None:
        authors = self.signed.authors
        author = authors[self.names.index(name) % len(authors)]
        if author not in self._down:
            save = self._rng.random() < 0.5
            change = e.ChangeSettings(None, {"lim.min_gain": amount}, save=save)
            self.signed.change(author, change)

    def _lie(self, liar: HostId, length_s: float) -> None:
        """Makes a host lie: to all at once, and to those that ask it later."""
        host = self.cluster[liar]
        if not host.running or host.stopped:
            return
        self.signed.liars.add(liar)
        self.cluster.at(length_s, partial(self.signed.liars.discard, liar))
        for entry in host.state.table.entries.values():
            if entry.member.name != liar:
                self.forged += 1
                self.cluster.deliver(
                    host, entry.member.lim_target, host.state.settings, 1.0, lambda reply: None
                )

    def _restore(self, name: HostId) -> None:
        """Restarts a host with an old state of its disk."""
        if name in self._down and (records := self.signed.records[name]):
            self.restored += 1
            self.cluster[name].settings_kept = self._rng.choice([m.Settings(), *records])
        self._start(name)

    def _heal(self) -> None:
        self.signed.liars.clear()
        super()._heal()
        self._newest = max(map(self._policy, self.cluster.hosts.values()))
        if not self.restored and self.signed.made:
            assert self._newest == max(self.signed.made), f"{self.where}: a policy was lost"

    def _policy(self, host: VirtualHost) -> tuple[int, str]:
        seal = host.state.settings.seal
        return seal.counter, seal.author

    def _same_settings(self) -> bool:
        alive = self.cluster.alive()
        same = len({policy_version(host.state.settings) for host in alive}) == 1
        return same and {*map(self._policy, alive)} == {self._newest} and super()._same_settings()
