"""Checks whether the queue is reached, and says why not: its host may be down, its daemon, or the
way to its port."""

import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from lbd.config.schema import Config, HostConfig
from lbd.console.daemons import Daemons
from lbd.console.reply import Json, table, tables, text
from lbd.doctor.checks import (
    FAULT,
    FIRST_HOST_LOST,
    FULL_FIX,
    OK,
    SEE_CERTIFICATE,
    SEE_STATE_DIRECTORY,
    Check,
)
from lbd.doctor.peers import answers, closed
from lbd.errors import LbdError, Unavailable
from lbd.model import target_of
from lbd.process import last_words
from lbd.process.pid_lock import pid_of_holder
from lbd.process.written_disks import besides_state, spool_root
from lbd.text.dispatcher_phrases import cause_in, is_away, is_revoked, waits_for_word, why_silent
from lbd.text.job_phrases import NOT_WRITTEN

START_DISPATCHER = "run `systemctl start lbd-dispatcher.path lbd-dispatcher` or `lbd up`"
DENIED = re.compile(r"dispatch\.store (/.+): Permission denied")
LOST_HOST = (
    'if it will not come back, follow "Replace" for a new machine of its name, or '
    f"{FIRST_HOST_LOST}"
)
LIMIT = "dispatch.ledger_bytes"
ANSWER_S = 4.0  # longer than the LBM tries to connect


def queue(
    daemons: Daemons, lims_away: Collection[str] = (), first_fix: str = ""
) -> Iterator[Check]:
    """Checks that the dispatcher answers, in a cluster that has one. `lims_away`: hosts whose LIM
    was not reached just now: one that has died looks alive for a while. `first_fix`: for a fault of
    this host that would also make the dispatcher look lost."""
    hosts, _ = daemons.queue()
    if not hosts:
        return
    try:
        status = daemons.lim({"op": "status"})
    except LbdError:
        return
    told = ""  # for what it waits, in its own words
    try:  # the LIM has it from the LBM, which asks once a second and keeps the last answer
        found = daemons.lbm({"op": "queue.status"}, ANSWER_S)
    except Unavailable:
        found = {}
        if not answers(daemons.socket("lbm")):  # its own faults are reported elsewhere
            found = table(table(status, "cluster"), "dispatcher")
            if not found:
                return
    except LbdError as problem:
        found, told = {}, cause_in(problem)
    if leader := text(found, "leader"):
        yield Check("dispatcher", OK, f"on {leader}, {text(found, 'queued')} queued")
        if full := text(found, "full"):
            yield Check("ledger", FAULT, f"on {leader}, {full}", room_fix(leader, full))
        for host, lacks in sorted(table(found, "no_room").items()):
            says = f"no queued job without -o begins on {host}: {lacks}"
            fix = f"make room there: `lbctl doctor` on {host} helps"
            if host == daemons.config.host.name:
                fix = own_outputs_fix(daemons.config)
            yield Check("outputs", FAULT, says, fix)
        yield from standby(daemons, hosts, leader)
        return
    own = daemons.config.host
    here = last_words.read(own.runtime_dir, "dispatcher") if own.name in hosts else ""
    host, why = " or ".join(hosts), here or told
    how = "does not run" if [*hosts] == [own.name] and runs_not(own) else "cannot be reached"
    says = f"the one on {host} {how}: lbrun -q and -d are refused"
    if here and len(hosts) > 1:
        says += f"; the one here {why_silent(here)}"
    elif why:
        says = f"the one on {host} {why_silent(why)}; meanwhile lbrun -q and -d are refused"
    if why:
        yield Check("dispatcher", FAULT, says, dispatcher_fix(why, ""))
        return
    if first_fix and (own.name not in hosts or first_fix == SEE_CERTIFICATE):
        yield Check("dispatcher", FAULT, says, first_fix)
        return
    rows = {text(row, "name"): row for row in tables(status, "hosts")}
    port = daemons.config.dispatch.port
    fixes = [
        silent_fix(one, {} if one == own.name else rows.get(one, {}), one in lims_away, port)
        for one in hosts
    ]
    if len(hosts) == 1 and fixes[0].startswith(f"{host} is down"):
        fixes.append(LOST_HOST)
    yield Check("dispatcher", FAULT, says, "; ".join(fixes))


def own_outputs_fix(config: Config) -> str:
    """The state directory's line says nothing of outputs on a disk of their own."""
    spool = spool_root(config.host.state_dir)
    if besides_state(config, {"outputs": Path(spool)}):
        return FULL_FIX.format(spool)
    return SEE_STATE_DIRECTORY


def room_fix(leader: str, full: str) -> str:
    """`full`: why the ledger has no room."""
    if LIMIT in full:
        return f"raise {LIMIT} there, or keep ended jobs for less long (dispatch.jobs_keep_days)"
    if full.endswith(NOT_WRITTEN):
        return f"on {leader}, see that dispatch.store can be written; `lbctl doctor` there helps"
    return f"free some space on {leader}; `lbctl doctor` there says where"


def standby(daemons: Daemons, hosts: Iterable[str], leader: str) -> Iterator[Check]:
    own = daemons.config.host
    if own.name in hosts and not answers(daemons.socket("dispatcher")):
        why = last_words.read(own.runtime_dir, "dispatcher")
        does_not = f"is not running ({why})" if why else "is not running"
        says = f"the one here {does_not}: if {leader} is lost, this host will not take over"
        yield Check("standby", FAULT, says, dispatcher_fix(why, leader))


def silent_fix(host: str, row: Json, is_away: bool, port: int) -> str:
    """`row`: its row of `lbctl status`, {} if it has none or is this host; `is_away`: its LIM does
    not answer."""
    start = f"on {host}, {START_DISPATCHER}; see its log"
    if not (address := text(row, "address")):
        return start
    target = target_of(address, port)
    why = closed(target)
    if why == "refused":  # the machine is up
        return f"{start}. If it runs, the firewall there rejects TCP port {port}: open it"
    if why and (is_away or text(row, "state") == "down"):
        return f"{host} is down: start that machine, and its daemons"
    if why:
        return (
            f"open TCP port {port} of {host} in the firewall ({target}: {why}). If it is open, "
            f"{start}"
        )
    if is_away:
        return f"see the line of peer {host} above: its LIM does not answer us either"
    return f"{start}: {target} accepts connections, but answers nothing"


def runs_not(own: HostConfig) -> bool:
    """Whether it is certain that no dispatcher runs on this host."""
    file = Path(own.runtime_dir, "dispatcher.pid")
    return not file.exists() or (os.access(file, os.R_OK) and pid_of_holder(file) is None)


def dispatcher_fix(why: str, leader: str) -> str:
    """`why`: its message when it could not start, "" if there was none. `leader`: one that
    could."""
    if is_revoked(why):
        return SEE_CERTIFICATE
    if waits_for_word(why):
        return "start the daemons of one of these hosts, or wait"
    if is_away(why):
        return "do what that line says; the dispatcher waits for it, and goes on by itself"
    if "password" in why:
        return f"correct the password, in the place that the line names; then {START_DISPATCHER}"
    if "ReadWritePaths" in why:
        return f"do what that line says; then {START_DISPATCHER}"
    if found := DENIED.search(why):
        file = shlex.quote(found[1])
        owned = f"{shlex.quote(os.path.dirname(found[1]))} {file}*"
        return (
            f"`chown lbd: {owned}` (or the user that daemons.user names); then {START_DISPATCHER}"
        )
    if "dispatch.store" in why and leader:
        return f"set dispatch.store as on {leader}; then {START_DISPATCHER}"
    return f"{START_DISPATCHER}; see its log"
