"""What `lbctl doctor` says of a queue that is not reached."""

import os

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.console.daemons import Daemons
from lbd.doctor import dispatcher
from lbd.doctor.checks import FAULT, OK, SEE_CERTIFICATE, SEE_STATE_DIRECTORY
from lbd.doctor.dispatcher import dispatcher_fix, queue
from lbd.doctor.peers import SEE_NETWORK
from lbd.errors import LbdError, Unavailable
from lbd.local.json_socket import Refusal
from lbd.process import last_words
from lbd.process.pid_lock import take_pid_lock
from lbd.text.dispatcher_phrases import WAITS, silence


class Answering(Daemons):
    """Daemons of h1, in a cluster whose queue is on h2. `h2`: its row of `lbctl status`."""

    def __init__(self, h2=None, found=None, own=None):
        super().__init__(Config(host=own or HostConfig(name="h1")))
        object.__setattr__(self, "row", {"name": "h2", "address": "10.0.0.2", **(h2 or {})})
        object.__setattr__(self, "found", found)

    def queue(self):
        return ("h2",), "lbctl queue"

    def lim(self, request, timeout_s=0.0):
        # what the LIM heard last must not count as an answer
        return {"hosts": [self.row], "cluster": {"dispatcher": {"leader": "h2", "queued": 7}}}

    def lbm(self, request, timeout_s=0.0):
        if isinstance(self.found, LbdError):
            raise self.found
        return self.found


@pytest.fixture
def port(monkeypatch):
    """Sets why no connection to the dispatcher's port can be made."""
    monkeypatch.setattr(dispatcher, "answers", lambda _: True)
    return lambda why: monkeypatch.setattr(dispatcher, "closed", lambda _: why)


def test_a_queue_that_answers():
    (found,) = queue(Answering(found={"leader": "h2", "queued": 3}))
    assert (found.state, found.says) == (OK, "on h2, 3 queued")


@pytest.mark.parametrize(
    ("full", "fix"),
    [
        ("/var/lib/lbd is full, so the queue takes no new jobs", "free some space on h2"),
        (
            "ledger.sqlite: disk I/O error, so the queue takes no new jobs and begins none",
            "on h2, see that disp",
        ),
        ("the ledger is full (dispatch.ledger_bytes is 4.0G)", "raise dispatch.ledger_bytes"),
    ],
)
def test_on_every_host_it_is_seen_that_the_queue_has_no_room(full, fix):
    """Only the doctor of the dispatcher's own host said so."""
    answering, room = queue(Answering(found={"leader": "h2", "queued": 3, "full": full}))
    assert answering.state == OK
    assert (room.state, room.says) == (FAULT, f"on h2, {full}")
    assert room.fix.startswith(fix)


def test_on_every_host_it_is_seen_whose_disk_of_outputs_is_full(tmp_path, monkeypatch):
    found = {"leader": "h2", "queued": 3, "no_room": {"h3": "the disk of /s is full"}}
    answering, room = queue(Answering(found=found))
    assert answering.state == OK
    says = "no queued job without -o begins on h3: the disk of /s is full"
    assert (room.state, room.says) == (FAULT, says)
    assert "h3" in room.fix
    own = {**found, "no_room": {"h1": "the disk of /s is full"}}
    assert [*queue(Answering(found=own))][1].fix == SEE_STATE_DIRECTORY, "not to run what was run"
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(dispatcher, "besides_state", lambda _, places: places)
    here = HostConfig(name="h1", state_dir=str(tmp_path))
    apart = [*queue(Answering(found=own, own=here))][1]
    assert apart.fix.endswith(
        f"`df {spool}; df -i {spool}` shows whether bytes or inodes are short"
    )


@pytest.mark.parametrize("problem", [Unavailable("lbm did not answer"), LbdError("no"), {}])
@pytest.mark.parametrize(
    ("h2", "away", "why", "fix", "not_fix"),
    [
        ({"state": "up"}, (), "no answer", "open TCP port 7903 of h2", "is down"),
        ({"state": "up"}, ("h2",), "no answer", "h2 is down: start that machine", "firewall"),
        ({"state": "down"}, (), "No route to host", '"The first host is lost"', "firewall"),
        ({"state": "down"}, (), "No route to host", '"Replace" for a new machine of', "firewall"),
        (
            {"state": "down"},
            (),
            "refused",
            "run `systemctl start lbd-dispatcher.path lbd-dispatcher`",
            "is lost",
        ),
        ({"state": "up"}, (), "refused", "rejects TCP port 7903", "is lost"),
        ({"state": "up"}, (), "", "answers nothing", "firewall"),
        ({"state": "up"}, ("h2",), "", "see the line of peer h2 above", "systemctl"),
        (
            {"address": ""},
            (),
            "refused",
            "run `systemctl start lbd-dispatcher.path lbd-dispatcher`",
            "firewall",
        ),
    ],
)
def test_a_silent_queue_is_a_fault_whatever_keeps_it_silent(
    port, problem, h2, away, why, fix, not_fix
):
    port(why)
    (found,) = queue(Answering(h2, problem), away)
    assert (found.name, found.state) == ("dispatcher", FAULT)
    assert "the one on h2 cannot be reached" in found.says
    assert fix in found.fix
    assert not_fix not in found.fix


@pytest.mark.parametrize("first", [SEE_CERTIFICATE, SEE_NETWORK])
def test_a_fault_of_this_host_is_not_looked_for_on_the_dispatchers_host(port, first):
    port("No route to host")
    (found,) = queue(Answering({"state": "down"}, {}), ("h2",), first)
    assert (found.state, found.fix) == (FAULT, first)


def test_with_an_expired_certificate_the_own_dispatcher_is_not_to_be_started(port):
    """It runs; only nobody believes it."""
    port("refused")
    (found,) = queue(Answering(None, {}, HostConfig(name="h2")), (), SEE_CERTIFICATE)
    assert found.fix == SEE_CERTIFICATE


def test_of_a_dead_lbm_the_queue_is_not_the_fault(monkeypatch):
    monkeypatch.setattr(dispatcher, "answers", lambda _: False)
    (found,) = queue(Answering(found=Unavailable("lbm is not running")))
    assert (found.state, found.says) == (OK, "on h2, 7 queued"), "as the LIM has heard"
    quiet = Answering(found=Unavailable("lbm is not running"))
    object.__setattr__(quiet, "lim", lambda *_: {"hosts": [], "cluster": {"dispatcher": None}})
    assert list(queue(quiet)) == []


@pytest.mark.parametrize(
    ("why", "fix"),
    [
        (
            'dispatch.store postgresql://db/lbd: password authentication failed for user "lbd"; '
            "the password is the one in /var/lib/lbd/.pgpass, if that has a line for this server",
            "correct the password, in the place that the line names",
        ),
        ("dispatch.store /x/ledger.sqlite: of a newer lbd", "set dispatch.store as on h1"),
        (
            "dispatch.store /x/l: Read-only file system for lbd-dispatcher.service: `systemctl "
            "edit lbd-dispatcher`, [Service] ReadWritePaths=/x (an existing directory)",
            "do what that line says; then",
        ),
        (
            "dispatch.store /srv/ledger/ledger.sqlite: Permission denied",
            "`chown lbd: /srv/ledger /srv/ledger/ledger.sqlite*` (or the user that",
        ),
        ("", "run `systemctl start lbd-dispatcher.path lbd-dispatcher`"),
    ],
)
def test_what_keeps_a_dispatcher_from_starting_has_its_own_fix(why: str, fix: str) -> None:
    assert dispatcher_fix(why, "h1").startswith(fix)


def test_a_dispatcher_elsewhere_that_waits_for_its_ledger_is_not_said_to_be_out_of_reach(port):
    """Only the doctor of its own host named the cause."""
    port("")
    cause = "the disk of the ledger is full: free some space in /srv/ledger"
    (found,) = queue(Answering(found=Refusal(silence("h2", f"{WAITS}{cause}"), "unavailable")))
    assert found.says == f"the one on h2 waits: {cause}; meanwhile lbrun -q and -d are refused"
    assert found.fix.startswith("do what that line says")


@pytest.mark.parametrize("told", [True, False])
def test_the_only_dispatcher_is_not_said_to_be_out_of_reach_on_its_own_host(port, tmp_path, told):
    """`the one on h2 cannot be reached`, on h2, to who may read why it waits."""
    port("refused")
    cause = "the disk of the ledger is full: free some space in /srv/ledger"
    last_words.leave(str(tmp_path), "dispatcher", cause)
    found = Refusal(silence("h2", f"{WAITS}{cause}"), "unavailable") if told else {}
    (found,) = queue(Answering(None, found, HostConfig(name="h2", runtime_dir=str(tmp_path))))
    assert found.says == f"the one on h2 waits: {cause}; meanwhile lbrun -q and -d are refused"


def test_where_one_of_two_dispatchers_waits_it_is_said_which(port, tmp_path, monkeypatch):
    port("refused")
    last_words.leave(str(tmp_path), "dispatcher", "the password is wrong")
    monkeypatch.setattr(Answering, "queue", lambda _: (("h1", "h2"), "lbctl queue"))
    own = HostConfig(name="h1", runtime_dir=str(tmp_path))
    (found,) = queue(Answering(None, {}, own))
    assert found.says.startswith("the one on h1 or h2 cannot be reached: ")
    assert found.says.endswith("; the one here cannot start: the password is wrong")


def test_a_dispatcher_that_is_stopped_here_is_not_said_to_be_out_of_reach(port, tmp_path):
    port("refused")
    own = HostConfig(name="h2", runtime_dir=str(tmp_path))
    (found,) = queue(Answering(None, {}, own))
    assert found.says.startswith("the one on h2 does not run: lbrun -q and -d are refused")
    lock = take_pid_lock(tmp_path / "dispatcher.pid")
    (found,) = queue(Answering(None, {}, own))
    os.close(lock)
    assert found.says.startswith("the one on h2 cannot be reached: ")
