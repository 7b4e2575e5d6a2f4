"""`lbd`: what it dispatches, and that every failure is one line and the right exit code."""

import asyncio
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lbd.cli import complaints, main, program
from lbd.cli.daemons import dispatcher, wiring
from lbd.config.schema import Config, HostConfig
from lbd.errors import EXIT_NO_ADDRESS, EXIT_NOT_HERE, ConfigError, NoAddress, Unavailable
from lbd.local.json_socket import Refusal
from lbd.process import last_words

ROOT = Path(__file__).parents[3]
USAGE = [
    ([], "lbd: which command? lim, lbm, keeper, authority, dispatcher, metrics, up, lab, sim, "
         "slurm, web; see"),
    (["limm"], "lbd: no command 'limm'; did you mean \"lim\"?; see lbd --help"),
    (["doctor"], "lbd: lbd has no command 'doctor'; did you mean `lbctl doctor`?"),
    (["--bogus"], "lbd: unrecognized arguments: --bogus; see lbd --help"),
    (["lim", "--bogus"], "lbd lim: unrecognized arguments: --bogus; see lbd lim --help"),
    (["lbm", "--conf", "x"], "lbd lbm: unrecognized arguments: --conf x"),
    (["--config", "/nowhere", "lim"], "lbd lim: --config /nowhere: no such file"),
    (["up", "--config", "/nowhere"], "lbd up: --config /nowhere: no such file"),
    (["lim", "--set", "lim.prt=1"], "lbd lim: --set lim.prt=1: lim.prt: unknown key; did you mean"),
    (["dispatcher", "--bogus"], "lbd dispatcher: unrecognized arguments: --bogus"),
    (["sim", "blance"], "lbd sim: no command 'blance'; did you mean \"balance\"?"),
]  # fmt: skip


@pytest.mark.parametrize(("argv", "line"), USAGE)
def test_usage_faults(complaint, argv, line):
    assert main.main(argv) == 2
    assert complaint().startswith(line)


@pytest.mark.parametrize("argv", [["--help"], ["lim", "--help"], ["up", "-h"], ["lab", "--help"]])
def test_help(capsys, argv):
    assert main.main(argv) == 0
    assert capsys.readouterr().out.startswith("usage: lbd")


def test_the_word_help(capsys):
    for words, usage in ((["help"], "usage: lbd"), (["help", "lim"], "usage: lbd lim")):
        assert main.main(words) == 0
        assert capsys.readouterr().out.startswith(f"{usage} [")


def test_version(capsys):
    assert main.main(["--version"]) == 0
    assert capsys.readouterr().out == "lbd 0.1.0\n"


@pytest.mark.parametrize(
    ("problem", "code", "err"),
    [
        (ConfigError("two\nlines"), 2, "x: two lines\n"),
        (Refusal("no host h9", "usage"), 2, "x: no host h9\n"),
        (Refusal("only root", "denied"), 1, "x: only root\n"),
        (Unavailable("nobody there"), 1, "x: nobody there\n"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_guard(capsys, problem, code, err):
    def body():
        raise problem

    assert complaints.guard("x", body) == code
    assert capsys.readouterr() == ("", err)


def test_a_daemon_exits_cleanly_on_term_and_reports_its_errors(tmp_path):
    config = Config(host=HostConfig(runtime_dir=str(tmp_path)))

    async def stopped(stop, ready):
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGTERM)
        await stop.wait()

    async def alone(stop, ready):
        raise Unavailable("port in use")

    async def broken(stop, ready):
        async def serve():
            raise Unavailable("port in use")

        async with asyncio.TaskGroup() as group:
            group.create_task(serve())
            group.create_task(stop.wait())

    async def ready_again(stop, ready):
        ready("")

    name = "dispatcher"
    assert wiring.run_daemon("lbd dispatcher", config, stopped) == 0
    assert last_words.read(config.host.runtime_dir, name) == ""
    for run in (broken, alone):
        with pytest.raises(Unavailable, match="port in use"):
            wiring.run_daemon("lbd dispatcher", config, run)
        assert last_words.read(config.host.runtime_dir, name) == "port in use"
        assert wiring.run_daemon("lbd dispatcher", config, ready_again) == 0
        assert last_words.read(config.host.runtime_dir, name) == ""
    with pytest.raises(Unavailable, match="port in use"):
        wiring.run_daemon("lbd lim", config, alone)
    assert last_words.read(config.host.runtime_dir, "lim") == "port in use"


def test_a_dispatcher_whose_queue_is_elsewhere_has_not_failed(tmp_path, monkeypatch, capfd):
    """systemd takes a service that ends before it is ready for a failed one."""
    config = Config(host=HostConfig(name="h1", runtime_dir=str(tmp_path)))
    with pytest.raises(ConfigError, match="names no host; this is h1"):
        dispatcher.run(config)  # typed by somebody
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        assert dispatcher.run(config) == EXIT_NOT_HERE
        assert manager.recv(100) == b"READY=1"
    said = "lbd dispatcher: dispatch.host names no host; this is h1"
    assert capfd.readouterr().err.splitlines() == [said]


def test_an_address_that_is_not_there_is_no_mistake_in_the_configuration(
    tmp_path, monkeypatch, capfd
):
    """systemd does not retry exit status 2, and tries others again."""
    unit = (ROOT / "deploy/systemd/lbd-lbm.service").read_text()
    assert "Restart=always" in unit
    assert f"RestartPreventExitStatus={complaints.EXIT_USAGE}\n" in unit
    pauses = []
    monkeypatch.setattr(time, "sleep", pauses.append)

    async def elsewhere(stop, ready):
        async with asyncio.TaskGroup() as group:
            group.create_task(asyncio.sleep(60))
            raise NoAddress("cannot listen on 10.9.9.9:7902")

    config = Config(host=HostConfig(runtime_dir=str(tmp_path)))
    assert wiring.run_daemon("lbd lbm", config, elsewhere) == EXIT_NO_ADDRESS
    assert capfd.readouterr().err == "lbd lbm: cannot listen on 10.9.9.9:7902\n"
    assert pauses == [wiring.NO_ADDRESS_PAUSE_S]


@pytest.mark.parametrize("module", ["argparse", "asyncio", "grpc", "psutil", "uvloop", "google"])
def test_help_costs_no_daemon(module):
    program = "import sys, lbd.cli.main, lbd.cli.lbctl; print(sys.argv[1] in sys.modules)"
    command = [sys.executable, "-c", program, module]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == f"{module == 'argparse'}\n"


@pytest.mark.parametrize(
    "argv",
    [
        ["lim"],
        ["--config", "/a", "lbm"],
        ["--config", "/a", "up", "--config", "/b", "--set", "lim.port=1", "--set", "host.name=h 1"],
        ["keeper", "--set", "users.unknown=", "--config", "b"],
    ],
)
def test_simple_daemon_arguments_are_read_as_argparse_reads_them(argv):
    command, words, config = program.command_line("lbd", "", main.COMMANDS, (), argv)
    assert main.plain_words(argv) == (command, *main.words_of_daemon(command, words, config))


@pytest.mark.parametrize(
    "argv",
    [
        [], ["sim"], ["lim", "lbm"], ["lim", "--help"], ["lim", "--config"], ["lim", "--conf", "x"],
        ["--set", "lim.port=1", "lim"], ["lim", "--set", "--config"], ["lim", "--config", ""],
        ["lim", "--set=lim.port=1"], ["--config", "/a"], ["lim", "--", "--config", "/a"],
    ],
)  # fmt: skip
def test_argparse_reads_everything_else(argv):
    assert main.plain_words(argv) is None


@pytest.mark.parametrize("argv", ["--help", "--version"])
def test_a_full_disk_is_one_line(argv, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    command = [sys.executable, "-m", "lbd.cli.main", argv]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (result.returncode, result.stderr) == (
        1,
        "lbd: standard output: No space left on device\n",
    )
