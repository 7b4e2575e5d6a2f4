"""The operations of lim.sock: one method each, from a request to a reply."""

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import NoReturn

from lbd import __version__
from lbd.errors import ConfigError, Incompatible, PeerError, Unavailable
from lbd.lim import events as e
from lbd.lim import messages as m
from lbd.lim import requests as r
from lbd.lim import settings
from lbd.lim.daemon import Lim
from lbd.load import sampler as kernel
from lbd.load.scopes import Root
from lbd.model import HostId, JobId
from lbd.policy.view import Nowhere
from lbd.rpc.admins import Admins
from lbd.rpc.lim_network import Traffic
from lbd.rpc.local import Caller, Connection, Json, Refusal
from lbd.spelling import hint

PEER_TIMEOUT_S = 2.0  # for another LIM to confirm a drain or to answer the doctor
RETURN_S_MAX = 600.0
WHYS_SHOWN = 4  # hosts of which a refusal says why they are out of the question


class Operations:
    def __init__(
        self, lim: Lim, traffic: Traffic, is_out: Callable[[str, float], bool] = lambda *_: False
    ) -> None:
        """`is_out`: is a host revoked that was heard last then?"""
        self._lim = lim
        self._is_out = is_out
        self._state = lim.state
        self._traffic = traffic
        self._admins = Admins(lim.config.admin)
        self._lbm_pid = 0
        self._lbm_returns_s = 0.0  # another follows it within that time
        self._queue: Json | None = None  # as our LBM tells of it
        self._operations = {
            "place": self._place,
            "lbm": self._lbm,
            "job": self._job,
            "trouble": self._trouble,
            "status": self._status,
            "algorithm": self._algorithm,
            "param": self._param,
            "drain": self._drain,
            "peers": self._peers,
            "doctor": self._doctor,
            "cut": self._cut,
            "counters": self._counters,
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
        """A client went away; if it was the LBM, no jobs are taken here until it is back."""
        if connection.caller.pid == self._lbm_pid:
            self._lbm_pid, self._queue = 0, None
            if self._lbm_returns_s:
                asyncio.get_running_loop().call_later(self._lbm_returns_s, self._lbm_gone)
            else:
                self._lbm_gone()

    def _lbm_gone(self) -> None:
        if not self._lbm_pid:
            self._lim.lbm_is(e.LbmStatus(accepting=False), set())

    # -- the LBM's -------------------------------------------------------------------------------

    async def _place(self, request: Json, caller: Caller) -> Json:
        dry = r.flag(request, "dry")
        if not dry:  # it is charged to the host
            self._only_daemon(caller)
        wish = r.placement_request(request, self._state.table)
        decision = await self._lim.place(wish, dry)
        if isinstance(decision, Nowhere):
            self._nowhere(decision, dry)
        reply = r.placement_reply(decision, self._state.table)
        return {**reply, "cpu_s": wish.cpu_s or None} if dry else reply

    def _nowhere(self, decision: Nowhere, dry: bool) -> NoReturn:
        """Says why of some hosts, and --explain of each."""
        whys = [f"{c.name}: {c.why}" for c in decision.candidates if c.why]
        if not dry and len(whys) > WHYS_SHOWN:
            whys[WHYS_SHOWN:] = ["… (lbrun --explain names all)"]
        listed = f" ({', '.join(whys)})" if whys else ""
        raise Refusal(f"{decision.reason}{listed}", "unavailable")

    async def _lbm(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        self._lbm_pid = caller.pid
        self._lbm_returns_s = min(r.seconds(request, "returns_s"), RETURN_S_MAX)
        pids = {caller.pid, r.count(request, "keeper")} - {0}
        self._lim.lbm_is(r.lbm_status(request), pids)
        queue = request.get("dispatcher")
        self._queue = queue if isinstance(queue, dict) else None
        sample = self._state.table.entries[self._state.me].sample
        return {
            "drained": self._state.drained,
            "job_threshold_s": self._state.in_force.lim.job_threshold_s,
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
            raise Refusal(f'no event "{event}"; Allowed: start, end')
        return {}

    async def _trouble(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        host = r.known_host(request.get("host"), self._state.table.entries)
        self._lim.handle(e.Trouble(host, r.text(request, "reason")[:200]), time.monotonic())
        return {}

    # -- people's --------------------------------------------------------------------------------

    async def _status(self, _request: Json, _caller: Caller) -> Json:
        entries = self._state.table.entries.items()
        revoked = {name for name, entry in entries if self._is_out(name, entry.heard_at_s)}
        return r.status(self._state, time.monotonic(), self._queue, revoked)

    async def _algorithm(self, request: Json, caller: Caller) -> Json:
        if request.get("name") is not None:
            name = settings.check_algorithm(r.text(request, "name"))
            self._admins.check(caller)
            self._lim.handle(e.ChangeSettings(name, {}), time.monotonic())
        return {"algorithm": self._state.in_force.lim.algorithm}

    async def _param(self, request: Json, caller: Caller) -> Json:
        name = settings.full_name(r.text(request, "name"))
        if request.get("value") is not None:
            value = settings.parsed(name, request["value"])
            self._admins.check(caller)
            self._lim.handle(e.ChangeSettings(None, {name: value}), time.monotonic())
        found: Json = {"name": name, "value": settings.value_of(self._state.in_force, name)}
        if name in self._state.settings.tuned:
            as_set = settings.as_set(self._state.base, self._state.settings)
            found["as_set"] = settings.value_of(as_set, name)
        return found

    async def _drain(self, request: Json, caller: Caller) -> Json:
        host = r.known_host(request.get("host"), self._state.table.entries)
        drained = r.flag(request, "drained", default=True)
        self._admins.check(caller)
        if host == self._state.me:
            self._lim.handle(e.SetDrained(drained), time.monotonic())
            return {"host": host, "drained": drained}
        try:
            reply = await self._ask(host, m.Drain(drained))
        except Unavailable:  # all of us remember it until it is back
            self._lim.handle(e.ChangeSettings(None, {}, {host: drained}), time.monotonic())
            return {"host": host, "drained": drained, "when_back": True}
        except PeerError as problem:
            raise Refusal(f"{host} did not confirm: {problem}", "unavailable") from None
        if not isinstance(reply.body, m.Ack) or reply.body.error or reply.body.unknown_sender:
            raise Refusal(f"{host} did not confirm; try again", "unavailable")
        self._state.drained_there(host, drained)
        return {"host": host, "drained": drained}

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

    async def _cut(self, request: Json, caller: Caller) -> Json:
        self._only_daemon(caller)
        hosts = request.get("hosts")
        if not isinstance(hosts, list):
            raise Refusal('"hosts" must be a list of names')
        if self._lim.network is not None:
            await self._lim.network.cut({str(name) for name in hosts})
        return {}

    # -- the doctor's ----------------------------------------------------------------------------

    async def _doctor(self, _request: Json, _caller: Caller) -> Json:
        sampler, identity = self._lim.sampler, self._state.identity
        peers = [name for name in self._state.table.entries if name != self._state.me]
        checks = await asyncio.gather(*(self._check_peer(name) for name in peers))
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
            **asdict(kernel.machine()),
        }

    async def _check_peer(self, name: HostId) -> Json:
        found: Json = {
            "name": name, "reachable": False, "rtt_s": None, "version": "", "clock_skew_s": None,
            "algorithm": "", "error": "",
        }  # fmt: skip
        began_s, began_unix_s = time.monotonic(), time.time()
        try:
            reply = await self._ask(name, m.Ping())
        except Incompatible as problem:
            return found | {"error": str(problem), "skewed": True}
        except (Unavailable, PeerError) as problem:
            return found | {"error": str(problem)}
        rtt_s = time.monotonic() - began_s
        if not isinstance(reply.body, m.Ack) or reply.body.error:
            error = reply.body.error if isinstance(reply.body, m.Ack) else "a senseless answer"
            return found | {"error": error}
        return found | {
            "reachable": True,
            "rtt_s": round(rtt_s, 6),
            "version": reply.body.version,
            "algorithm": reply.body.algorithm,
            "clock_skew_s": round(reply.body.unix_time_s - began_unix_s - rtt_s / 2, 3),
        }

    async def _ask(self, host: HostId, body: m.Body) -> m.Message:
        target = self._state.table.entries[host].member.lim_target
        return await self._lim.ask(host, target, body, PEER_TIMEOUT_S)

    def _only_daemon(self, caller: Caller) -> None:
        if not caller.is_daemon:
            raise Refusal("only root and the daemon's own user may", "denied")


def is_path(text: str) -> bool:
    return text.startswith("/") and "\0" not in text
