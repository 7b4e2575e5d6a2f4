"""What `lbctl doctor` says of a daemon of this host that does not run."""

import os
import socket
from pathlib import Path

import pytest

from lbd.config.schema import Config, HostConfig
from lbd.console.daemons import START, Daemons
from lbd.doctor.checks import FAULT, Check
from lbd.doctor.dispatcher import START_DISPATCHER
from lbd.doctor.findings import absent, in_lab
from lbd.errors import Unavailable
from lbd.local.starting import how_to_start
from lbd.process import last_words
from lbd.process.pid_lock import take_pid_lock


@pytest.fixture
def daemons(tmp_path):
    host = HostConfig(name="h1", address="127.0.0.1", runtime_dir=str(tmp_path))
    return Daemons(Config(host=host))


def found(daemons):
    return absent("LBM", daemons, "lbm", Unavailable("lbm is not running"))


def start(daemons):
    return how_to_start([daemons.config.host.runtime_dir])


def test_without_last_words_it_is_to_be_started(daemons):
    check = found(daemons)
    assert (check.says, check.fix) == (f"not running: no {daemons.socket('lbm')}", start(daemons))


def test_who_has_a_lab_is_told_how_to_act_from_it(daemons, monkeypatch):
    """It was to be started, by somebody who had opened a second terminal."""
    advice = 'a lab of yours is running; type: eval "$(lbd lab env h1)"'
    monkeypatch.setattr("lbd.doctor.findings.own_lab_advice", lambda runtime_dir: advice)
    assert found(daemons).fix == advice
    daemons.socket("lbm").touch()
    assert found(daemons).fix == start(daemons)


def test_what_kept_it_from_starting_is_to_be_corrected_first(daemons):
    why = "host.state_dir /var/lib/lbd: cannot be written by this user"
    last_words.leave(daemons.config.host.runtime_dir, "lbm", why)
    check = found(daemons)
    fix = f"correct that first; then {start(daemons)}"
    assert (check.says, check.fix) == (f"not running: {why}", fix)


def test_the_process_that_holds_its_port_is_named_with_the_setting(daemons):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        why = f"cannot listen on 127.0.0.1:{port}: in use, or not an address of this host"
        last_words.leave(daemons.config.host.runtime_dir, "lbm", why)
        fix = found(daemons).fix
        assert f"(process {os.getpid()}), or set lbm.port to another port; then " in fix
    assert found(daemons).fix.startswith("stop what is listening there (ss -ltnp), or set lbm.port")


def test_one_that_hangs_is_ended_by_a_command(daemons):
    runtime = daemons.config.host.runtime_dir
    daemons.socket("lbm").touch()
    silent = Unavailable("lbm did not answer within 5 s")
    assert absent("LBM", daemons, "lbm", silent).fix.startswith("it hangs or is stopped: kill it")
    lock = take_pid_lock(Path(runtime, "lbm.pid"))
    fix = absent("LBM", daemons, "lbm", silent).fix
    os.close(lock)
    assert fix == f"it hangs or is stopped: `kill -9 {os.getpid()}`, and it will be restarted"


@pytest.mark.parametrize(
    ("fix", "shown"),
    [
        (f"on h2, {START}; if not", "on h2, run `lbd lab start h2 --dir /l`; if not"),
        (f"do it; then {START_DISPATCHER}", "do it; then run `lbd lab start h1 --dir /l`"),
        (f"on h1, {START_DISPATCHER}; see", "on h1, run `lbd lab start h1 --dir /l`; see"),
        ("run `lbctl undrain h2`", "run `lbctl undrain h2`"),
    ],
)
def test_in_a_lab_its_own_command_starts_daemons(fix, shown):
    """There are no units, and `lbd up` would start what the lab does not know of."""
    assert in_lab(Check("x", FAULT, "y", fix), "h1", "lbd lab start h1 --dir /l").fix == shown
