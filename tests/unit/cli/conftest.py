import logging
import threading

import pytest

from tests.unit.cli.canned import Canned


@pytest.fixture(autouse=True)
def no_daemons_account(monkeypatch):
    """A host with an account `lbd` would check whether that may read the tests' files."""
    for module in ("lbd.doctor.checks", "lbd.cli.ctl.restart"):
        monkeypatch.setattr(f"{module}.find_account", lambda _: None)


@pytest.fixture(autouse=True)
def same_log():
    """A daemon that runs in a test's process logs to that test's stderr for ever."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level


@pytest.fixture
def daemon(tmp_path, monkeypatch):
    """daemon("lim", op=answer…) starts a canned daemon and points the configuration at it."""
    config = tmp_path / "lbd.toml"
    config.write_text(
        f'[host]\nname = "h1"\nruntime_dir = "{tmp_path}"\nstate_dir = "{tmp_path}"\n'
    )
    monkeypatch.setenv("LBD_CONFIG", str(config))
    monkeypatch.delenv("NO_COLOR", raising=False)
    started = []

    def start(name, **answers):
        kept = {"settings": {"saved": {}}}
        alive = {"status": {"ok": True}} if name == "lbm" else kept
        server = Canned(tmp_path / f"{name}.sock", {**alive, **answers})
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


@pytest.fixture
def complaint(capsys):
    """complaint() returns the one line on stderr of a command that has printed nothing else."""

    def read():
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        return err

    return read
