"""The operations of lim.sock: one method each, from a request to a reply.

It is one file because the operations are one list.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from typing import NoReturn

from lbd import __version__
from lbd.config.cluster import is_shared, queue_hosts, shared_text
from lbd.errors import ConfigError, Incompatible, PeerError, Unavailable
from lbd.lim import socket_values as r
from lbd.lim.core import events as e
from lbd.lim.core import messages as m
from lbd.lim.core import settings
from lbd.lim.core.membership import forget_remembered
from lbd.lim.core.past_loads import SPANS, PastLoads
from lbd.lim.core.signed import has_policy, policy_version
from lbd.lim.core.table import NEVER
from lbd.lim.daemon import Lim, more_is_known
from lbd.lim.metrics import lim_metrics
from lbd.load import sampler as kernel
from lbd.load.scopes import Root
from lbd.local.admins import Admins
from lbd.local.caller import Caller, caller_name
from lbd.local.json_socket import HEARD, Connection, Json, Refusal
from lbd.model import Closed, HostId, HostState, JobId, PlacementRequest
from lbd.net.lim_network import Traffic
from lbd.policy.ranking import EXCLUDED, MUST_LEAVE
from lbd.policy.view import Nowhere
from lbd.process.job_log import RECENT, JobLog
from lbd.process.own_figures import OwnFigures
from lbd.text.host_name import in_order
from lbd.text.placement_phrases import BELOW_THRESHOLD
from lbd.text.spelling import hint

job_log = JobLog(logging.getLogger(__name__))

PEER_TIMEOUT_S = 2.0  # for another LIM to confirm a drain or to answer the doctor
CONFIRM_AGAIN_S = 0.1  # between two checks whether a host has the new settings
CHECKED_S = 2 * PEER_TIMEOUT_S  # for how long the hosts' answers serve everyone who asks for them
RETURN_S_MAX = 600.0
LEFT_OUT = "", EXCLUDED, MUST_LEAVE
DRAINED = HostState.DRAINED.value
WHYS_SHOWN = 4  # hosts for which a refusal says why they are unsuitable


class Operations:
    """The requests and reports that the LIM handles. One class because they are one list: a short
    method for each."""

    def __init__(
        self,
        lim: Lim,
        traffic: Traffic,
        is_out: Callable[[str, float], bool] = lambda *_: False,
        past_loads: PastLoads | None = None,
    ) -> None:
        """`is_out(host, heard_s)`: whether the host is revoked, if it was last heard at that
        time."""
        # None: hosts have no certificates.
        self.sign: Callable[[e.ChangeSettings], e.ChangeSettings] | None = None
        # why joining hosts reject our settings; "" if they do not
        self.doubt: Callable[[], str] = str
        self._lim = lim
        self._past_loads = past_loads or PastLoads()
        self._is_out = is_out
        self.has_new_certificate: Callable[[str], bool] = lambda _host: False
        self.has_expired: Callable[[str], bool] = lambda _host: False  # its certificate
        self._state = lim.state
        self._traffic = traffic
        self._admins = Admins(lim.config.admin)
        # The connection of the LBM's reports. It asks questions over others, each closed at once.
        self._lbm_caller: Caller | None = None
        self._lbm_returns_s = 0.0  # its successor connects within that time
        self._queue: Json | None = None  # as reported by our LBM
        self._checking: asyncio.Future[list[Json]] | None = None
        self._checked_s = 0.0  # when that began
        self._checked_version = (0, "")  # version of our settings then
        self._figures = OwnFigures()
        self._operations = {
            "place": self._place,
            "lbm": self._lbm,
            "job": self._job,
            "trouble": self._trouble,
            "status": self._status,
            "loads": self._loads,
            "algorithm": self._algorithm,
            "param": self._param,
            "drain": self._drain,
            "drains": self._drains,
            "forget": self._forget,
            "removed": self._removed,
            "settings": self._settings,
            "share": self._share,
            "peers": self._peers,
            "doctor": self._doctor,
            "cut": self._cut,
            "counters": self._counters,
            "metrics": self._metrics,
            "lines": self._lines,
        }

    async def handle(self, request: Json, caller: Caller) -> Json:
        """Raises Refusal with the reason."""
        operation = self._operations.get(str(request.get("op")))
        if operation is None:
            name = str(request.get("op"))[:40]
            raise Refusal(f'no operation "{name}"; {hint(name, self._operations)}')
        try:
            return await operation(request, caller)
        except ConfigError as problem:
            raise Refusal(str(problem)) from None

    def closed(self, connection: Connection) -> None:
        """A client disconnected. If it was the LBM, this host takes no jobs until it is back."""
        if connection.caller is self._lbm_caller:
            self._lbm_caller = self._queue = None
            if self._lbm_returns_s:
                asyncio.get_running_loop().call_later(self._lbm_returns_s, self._lbm_gone)
            else:
                self._lbm_gone()

    def _lbm_gone(self) -> None:
        if self._lbm_caller is None:
            self._lim.lbm_is(e.LbmStatus(accepting=False, closed=Closed.NO_LBM), set())

    # -- of the LBM ------------------------------------------------------------------------------

    async def _place(self, request: Json, caller: Caller) -> Json:
        dry = r.flag(request, "dry")
        if not dry:  # the job is charged to the host
            self._only_daemon(caller)
        asked = await self._asked(request)
        decision = await self._lim.place(asked, dry)
        if not dry:
            host = "nowhere" if isinstance(decision, Nowhere) else f"on {decision.host}"
            job_log.debug(asked.job, "placed %s: %s", host, decision.reason)
        if isinstance(decision, Nowhere):
            self._nowhere(decision, dry)
        reply = r.placement_reply(decision, self._state.table)
        if asked.shown:
            reply["cpu_s"] = asked.cpu_s or None
        if asked.shown or decision.reason == BELOW_THRESHOLD:  # the load is kept with the command
            reply |= r.load_here(self._state)
        return reply

    async def _asked(self, request: Json) -> PlacementRequest:
        """Waits for news if a named host may not be known yet."""
        while True:
            try:
                return r.placement_request(request, self._state.table)
            except ConfigError:
                if not await more_is_known(self._state):
                    raise

    def _nowhere(self, decision: Nowhere, dry: bool) -> NoReturn:
        """Explains why some hosts, or with --explain all, are unsuitable; leaves out those that
        the caller excluded, and this one if the command must leave it."""
        unsuitable = [one for one in decision.candidates if one.why not in LEFT_OUT]
        whys = [
            f"{one.name}: "
            f"{r.drained_there(self._state, one.name) if one.why == DRAINED else one.why}"
            for one in sorted(unsuitable, key=lambda one: in_order(one.name))
        ]
        if not dry and len(whys) > WHYS_SHOWN:
            whys[WHYS_SHOWN:] = ["… (lbrun --explain lists all)"]
        listed = f" ({', '.join(whys)})" if whys else ""
        reason = decision.reason
        if reason.endswith(f": {DRAINED}"):  # this host, named by -H
            reason = reason.removesuffix(DRAINED) + r.drained_there(self._state, self._state.me)
        raise Refusal(f"{reason}{listed}", "unavailable")

    async def _lbm(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        self._lbm_caller = caller
        self._lbm_returns_s = min(r.seconds(request, "returns_s"), RETURN_S_MAX)
        pids = {caller.pid, r.count(request, "keeper")} - {0}
        self._lim.lbm_is(r.lbm_status(request), pids)
        queue = request.get("dispatcher")
        self._queue = queue if isinstance(queue, dict) else None
        sample = self._state.table.entries[self._state.me].sample
        wants_owners = request.get("wants_owners") is True
        return {
            **(
                r.owners(
                    self._state, time.monotonic(), with_facts=request.get("wants_facts") is True
                )
                if wants_owners
                else {}
            ),
            "queue": queue_hosts(self._state.settings.saved),
            "drained": self._state.drained,
            "drain": r.drain_note(self._state, self._state.me) if self._state.drained else None,
            "job_threshold_s": self._state.in_force.lim.job_threshold_s,
            "algorithm": self._state.in_force.lim.algorithm,
            "index": sample.vector.index if sample is not None else 0.0,
        }

    async def _job(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        job = JobId(r.text(request, "job"))
        event = r.text(request, "event")
        if event == "end":
            self._lim.job_ended(job)
        elif event == "start":
            host = r.known_host(request.get("host"), self._state.table.entries)
            pid, cgroup = request.get("pid"), request.get("cgroup")
            root = Root(
                pid if isinstance(pid, int) and pid > 0 else None,
                cgroup if isinstance(cgroup, str) and is_path(cgroup) else None,
            )
            self._lim.job_started(job, host, root)
        else:
            raise Refusal(f'no event "{event}"; allowed: start, end')
        return {}

    async def _trouble(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        host = r.known_host(request.get("host"), self._state.table.entries)
        self._lim.handle(e.Trouble(host, r.text(request, "reason")[:200]), time.monotonic())
        return {}

    # -- of people -------------------------------------------------------------------------------

    async def _status(self, request: Json, _caller: Caller) -> Json:
        """Waits for news while no known host has `slots` slots, as the caller would conclude that
        none has."""
        slots = r.count(request, "slots")
        while slots > self._state.table.most_slots() and await more_is_known(self._state):
            pass
        now_s = time.monotonic()
        out = {name for name in self._state.table.entries if self._is_revoked(name, now_s)}
        replaced = {name for name in out if self.has_new_certificate(name)}
        return r.status(self._state, now_s, self._queue, out - replaced, replaced)

    async def _loads(self, request: Json, _caller: Caller) -> Json:
        """Returns the past loads of some hosts."""
        span, now_s = r.span(request), time.time()
        found = {
            host: r.loads(self._past_loads.points(host, span, now_s))
            for host in r.hosts_asked(request)
        }
        step_s, _ = SPANS[span]
        return {"step_s": step_s, "until": (now_s // step_s + 1) * step_s, "loads": found}

    def _is_revoked(self, name: HostId, now_s: float) -> bool:
        """Whether a host is revoked. A fresh sample counts as heard: the centre got it from a host
        that has joined again."""
        entry = self._state.table.entries[name]
        is_fresh = self._state.table.state(name, now_s)[0] in (HostState.UP, HostState.DRAINED)
        heard_s = max(entry.heard_at_s, entry.sampled_at_s) if is_fresh else entry.heard_at_s
        return self._is_out(name, heard_s)

    async def _algorithm(self, request: Json, caller: Caller) -> Json:
        found: Json = {}
        save, reset = r.flag(request, "save"), r.flag(request, "reset")
        if request.get("name") is not None or save or reset:
            now = self._state.in_force.lim.algorithm
            name = settings.check_algorithm(str(request.get("name") or now))
            self._admins.check(caller)
            found["was"] = now
            change = e.ChangeSettings(name, {}, save=save)
            if reset:
                change, how = self._reset(settings.ALGORITHM, whole=r.flag(request, "whole"))
                found |= how
            found |= await self._change(change)
        if saved := self._state.settings.saved.get(settings.ALGORITHM):
            found["saved"] = saved
        return {"algorithm": self._state.in_force.lim.algorithm, **found}

    async def _param(self, request: Json, caller: Caller) -> Json:
        name = settings.full_name(r.text(request, "name"))
        told: Json = {}
        save, reset = r.flag(request, "save"), r.flag(request, "reset")
        if request.get("value") is not None or save or reset:
            as_set = settings.as_set(self._state.base, self._state.settings)
            now = settings.value_of(as_set, name)
            value = (
                settings.parsed(name, request["value"]) if request.get("value") is not None else now
            )
            self._admins.check(caller)
            told["was"] = settings.value_of(self._state.in_force, name)
            change = e.ChangeSettings(None, {name: value}, save=save)
            if reset:
                change, how = self._reset(name, whole=r.flag(request, "whole"))
                told |= how
            told |= await self._change(change)
        if saved := self._state.settings.saved.get(name):
            told["saved"] = settings.parsed(name, saved)
        found: Json = {"name": name, "value": settings.value_of(self._state.in_force, name), **told}
        if name in self._state.settings.tuned:
            as_set = settings.as_set(self._state.base, self._state.settings)
            found["as_set"] = settings.value_of(as_set, name)
        return found

    def _reset(self, name: str, *, whole: bool) -> tuple[e.ChangeSettings, Json]:
        """Returns the change that resets a name, and what to report about it. It ends a trial if
        there is a saved value besides; else, or with `whole`, it also drops the saved value."""
        now = self._state.settings
        saved = now.saved.get(name) if not whole and name in settings.on_trial(now) else None
        if saved is None:
            dropped: Json = {"dropped": now.saved[name]} if name in now.saved else {}
            return e.ChangeSettings(None, {}, reset=frozenset([name])), dropped
        ended: Json = {"trial_ended": True}
        if name == settings.ALGORITHM:
            return e.ChangeSettings(saved, {}), ended
        return e.ChangeSettings(None, {name: settings.parsed(name, saved)}), ended

    async def _settings(self, request: Json, caller: Caller) -> Json:
        """Returns what is saved for all hosts, and which hosts run the dispatcher if that is part
        of it. `sign`: this host signs them, unchanged."""
        if r.flag(request, "sign", default=False):
            self._admins.check(caller)
            return await self._change(e.ChangeSettings(None, {}, save=True))
        now = self._state.settings
        return {"counter": now.counter, "author": now.author, "saved": dict(now.saved),
                "trial": settings.on_trial(now), "signs": self.sign is not None,
                "signed_by": now.seal.author, "doubt": self.doubt(),
                "queue": queue_hosts(now.saved)}  # fmt: skip

    async def _share(self, request: Json, caller: Caller) -> Json:
        """Sets values of lbd.toml for every host; null: each host's own file applies again."""
        given = request.get("values")
        values = given if isinstance(given, dict) else {}
        texts = {str(name): shared_text(str(name), value) for name, value in values.items()
                 if value is not None}  # fmt: skip
        self._admins.check(caller)
        if not values:
            return {}  # the question was only whether the caller may
        for name in queue_hosts(texts) or ():
            r.known_host(name, self._state.table.entries)
            if self._lim.network is None:  # no dispatcher could start here
                raise Refusal(
                    "the queue needs certificates: run `lbctl init` or `lbctl join`, then "
                    "`lbctl restart`", "unavailable",
                )  # fmt: skip
        names = frozenset(str(name) for name, value in values.items() if value is None)
        if strange := sorted(filter(lambda name: not is_shared(name), names)):
            raise Refusal(f"{strange[0]} cannot be set for the whole cluster")
        change = e.ChangeSettings(None, {}, reset=names, shared=texts)
        return await self._change(change)

    async def _change(self, change: e.ChangeSettings) -> Json:
        """Makes the change. Returns on how many hosts our newest settings, or newer ones, are in
        force. Hosts that are up are asked until they confirm, up to the time another LIM has for an
        answer. Hosts that are `down` count too: they get the settings when they are back."""
        self._lim.handle(self.sign(change) if self.sign else change, time.monotonic())
        state, now_s = self._state, time.monotonic()
        others = [name for name in state.table.entries if name != state.me]
        versions, missing = (state.settings.version, policy_version(state.settings)), set(others)
        down = {name for name in others if state.table.state(name, now_s)[0] is HostState.DOWN}
        asked, end_s = missing - down, now_s + PEER_TIMEOUT_S
        while asked and time.monotonic() < end_s:
            answers = await asyncio.gather(*(self._settings_of(name) for name in sorted(asked)))
            done = {name for name, ack in answers if has_policy(ack, *versions)}
            asked, missing = asked - done, missing - done
            if asked:
                await asyncio.sleep(CONFIRM_AGAIN_S)
        return {"hosts": 1 + len(others), "changed": 1 + len(others) - len(missing),
                "missing": sorted(missing), "down": sorted(down), **self._unsaved()}  # fmt: skip

    def _unsaved(self) -> Json:
        """Says what this host could not save, to the one who changed it."""
        return {"unsaved": why} if (why := self._lim.kept.unsaved) else {}

    async def _settings_of(self, host: HostId) -> tuple[HostId, m.Ack]:
        try:
            reply = await self._ask(host, m.Ping())
        except (Unavailable, PeerError):
            return host, m.Ack()
        return host, reply.body if isinstance(reply.body, m.Ack) else m.Ack()

    async def _drain(self, request: Json, caller: Caller) -> Json:
        host = r.known_host(request.get("host"), self._state.table.entries)
        drained = r.flag(request, "drained", default=True)
        reason = r.drain_reason(request)
        self._admins.check(caller)
        before = self._state.settings.drain_notes.get(host)
        was_drained = self._state.table.is_drained(self._state.table.entries[host])
        reply: Json = {"host": host, "drained": drained}
        if not drained:
            reply["was_drained"] = was_drained or before is not None
        if drained and was_drained:
            reply["before"] = r.drain_note(self._state, host)
        by = f"{caller_name(caller)}@{self._state.me}"[: m.BY_CHARS_MAX]
        note = m.DrainNote(reason, by, time.time())
        notes: dict[HostId, m.DrainNote | None] = {host: note if drained else None}
        ended = m.PastDrain(host, before, note.by, note.since) if before else None
        if (drained and before and "before" in reply and not reason) or (
            not drained and before is None
        ):
            notes, ended = {}, None  # unchanged
        if r.flag(request, "leaves", default=False):
            # It takes no commands until it ends, and its successor is not drained.
            self._lim.handle(e.SetDrained(True, for_good=True), time.monotonic())
        elif host == self._state.me:
            self._lim.handle(e.SetDrained(drained), time.monotonic())
        else:
            reply |= await self._drain_there(host, drained)
        away = {host: drained} if "when_back" in reply else {}
        if notes or away:
            change = e.ChangeSettings(None, {}, away, notes, ended)
            self._lim.handle(change, time.monotonic())
        return reply | self._unsaved()

    async def _drains(self, _request: Json, _caller: Caller) -> Json:
        """Returns the current drains of all hosts and the latest past ones."""
        return {"drains": r.drains(self._state.settings)}

    async def _forget(self, request: Json, caller: Caller) -> Json:
        """Forgets a host that is gone for good; here also one known only from before our start."""
        self._admins.check(caller)
        name, now_s = str(request.get("host")), time.monotonic()
        if name in (queue_hosts(self._state.settings.saved) or ()):
            raise Refusal(f"the queue is on {name}: first run `lbctl queue disable --force`, or "
                          "enable it on another host")  # fmt: skip
        if forget_remembered(self._state.membership, self._state.table, HostId(name)):
            done = {"host": name, "hosts": 1, "missing": [], "listed": False}
            return {**done, "revoked": self._is_out(name, NEVER)}
        host = r.known_host(name, self._state.table.entries)
        if host == self._state.me:
            raise Refusal(f"{host} is this host: use `lbctl leave` to take it out of the cluster")
        if not self._state.membership.is_lost(host, now_s):
            age_s = now_s - self._state.table.entries[host].sampled_at_s
            raise Refusal(r.still_up(host, age_s), HEARD)
        is_listed = self._state.table.entries[host].listed
        is_revoked = self._is_revoked(host, now_s)
        self._lim.perform(self._state.left(host, now_s))
        others = self._state.table.others_alive(now_s)
        said = await asyncio.gather(*(self._forgotten_by(name, host) for name in others))
        missing = [name for name, done in zip(others, said, strict=True) if not done]
        done = {"host": host, "hosts": 1 + len(others), "missing": missing, "listed": is_listed}
        return {**done, "revoked": is_revoked}

    async def _removed(self, _request: Json, caller: Caller) -> Json:
        """Returns the hosts that were removed from the cluster since our start and have not joined
        again, for the dispatcher."""
        self._only_daemon(caller)
        known = self._state.table.entries
        return {"hosts": [one for one in self._state.membership.tombstones if one not in known]}

    async def _forgotten_by(self, name: HostId, host: HostId) -> bool:
        try:
            reply = await self._ask(name, m.Forget(host))
        except (Unavailable, PeerError):
            return False
        return isinstance(reply.body, m.Ack) and not reply.body.error

    async def _drain_there(self, host: HostId, drained: bool) -> Json:
        """Drains another host. One that does not answer is drained when it is back: all hosts
        remember it."""
        try:
            reply = await self._ask(host, m.Drain(drained))
        except Unavailable:
            return {"when_back": True}
        except PeerError as problem:
            raise Refusal(f"{host} did not confirm: {problem}", "unavailable") from None
        if not isinstance(reply.body, m.Ack) or reply.body.error or reply.body.unknown_sender:
            raise Refusal(f"{host} did not confirm; try again", "unavailable")
        self._state.drained_there(host, drained)
        return {}

    async def _peers(self, _request: Json, _caller: Caller) -> Json:
        return {"peers": r.peers(self._state, time.monotonic())}

    async def _counters(self, _request: Json, _caller: Caller) -> Json:
        traffic = self._traffic
        return {
            "messages_in": dict(traffic.messages_in),
            "messages_out": dict(traffic.messages_out),
            "messages_refused": traffic.refused,
            "bytes_in": dict(traffic.bytes_in),
            "bytes_out": dict(traffic.bytes_out),
            "undelivered": dict(self._lim.undelivered),
            "decisions": dict(self._state.placer.decisions),
            "charged_jobs": self._state.table.charged_jobs(),
            "readings": self._lim.sampler.readings,
        }

    async def _metrics(self, _request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        lim, now_s = self._lim, time.monotonic()
        known = lim_metrics(self._state, self._traffic, lim.undelivered, now_s)
        return {**self._figures.answer(), **known}

    async def _lines(self, request: Json, caller: Caller) -> Json:
        """Returns the recent log lines about a job."""
        self._only_daemon(caller)
        lines, more = RECENT.of(r.text(request, "job"), time.time())
        return {"lines": lines, "more": more}

    async def _cut(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        hosts = request.get("hosts")
        if not isinstance(hosts, list):
            raise Refusal('"hosts" must be a list of names')
        if self._lim.network is not None:
            await self._lim.network.cut({str(name) for name in hosts})
        return {}

    # -- of the doctor ---------------------------------------------------------------------------

    async def _doctor(self, _request: Json, caller: Caller) -> Json:
        sampler, identity = self._lim.sampler, self._state.identity
        checks = await self._checked_peers(fresh=self._admins.include(caller))
        rate_hz = 1.0 / sampler.interval_s(jitter=False)
        return {
            "scope": sampler.scope.name,
            "scope_reason": sampler.scope.reason,
            "sampling_hz": round(rate_hz, 2),
            "sampling_cost_core": round(sampler.cost_s * rate_hz, 5),
            "cores": identity.cores,
            "speed": identity.speed,
            "site_command": " ".join(self._lim.site.load.site_command),
            "site_fault": self._lim.site.fault,
            "peers": list(checks),
            "version": __version__,
            "algorithm": self._state.in_force.lim.algorithm,
            "fds_open": len(os.listdir("/proc/self/fd")),
            "fds_limit": kernel.descriptor_limit(),
            **kernel.machine(),
        }

    async def _checked_peers(self, *, fresh: bool) -> list[Json]:
        """Returns the checks of all peers. They are run once for all users who ask meanwhile, since
        anybody may ask and each check takes as many messages as there are hosts. `fresh`: an
        administrator asks. Answers from before our settings changed are not used."""
        now_s, version = time.monotonic(), self._state.settings.version
        is_old = now_s >= self._checked_s + CHECKED_S or version != self._checked_version
        if fresh or self._checking is None or is_old:
            peers = [name for name in self._state.table.entries if name != self._state.me]
            checks = asyncio.gather(*(self._check_peer(name) for name in peers))
            self._checking, self._checked_s, self._checked_version = checks, now_s, version
        return await asyncio.shield(self._checking)

    async def _check_peer(self, name: HostId) -> Json:
        found: Json = {
            "name": name, "reachable": False, "rtt_s": None, "version": "", "clock_skew_s": None,
            "algorithm": "", "same_settings": True, "error": "",
        }  # fmt: skip
        began_s, began_unix_s = time.monotonic(), time.time()
        try:
            reply = await self._ask(name, m.Ping())
        except Incompatible as problem:
            return found | {"error": str(problem), "skewed": True}
        except (Unavailable, PeerError) as problem:
            return found | {"error": str(problem)}
        if self.has_expired(name):  # it answers on an old connection, but may call nobody
            return found | {"error": f"the certificate of {name} has expired"}
        rtt_s = time.monotonic() - began_s
        if not isinstance(reply.body, m.Ack) or reply.body.error:
            error = (
                reply.body.error if isinstance(reply.body, m.Ack) else "an answer that is not valid"
            )
            return found | {"error": error}
        return found | {
            "reachable": True,
            "rtt_s": round(rtt_s, 6),
            "version": reply.body.version,
            "algorithm": reply.body.algorithm,
            "same_settings": reply.body.settings_version == self._state.settings.version,
            "clock_skew_s": round(reply.body.unix_time_s - began_unix_s - rtt_s / 2, 3),
        }

    async def _ask(self, host: HostId, body: m.Body) -> m.Message:
        target = self._state.table.entries[host].member.lim_target
        return await self._lim.ask(host, target, body, PEER_TIMEOUT_S)

    def _only_daemon(self, caller: Caller) -> None:
        if not caller.is_daemon:
            raise Refusal(
                "permission denied: only root and the daemon's own user can do that", "denied"
            )


def is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text
