"""What shells accept as a command and lbrun does not is answered with the right way to do it."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lbd.lbm.inbound.refusal_text import explain
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen.lbm_pb2 import RunRequest

COMPILED = [str(Path(sys.executable).with_name("lbrun"))]
MAIN = "import sys; sys.argv[0] = 'lbrun'; from lbd.client.lbrun import main; main()"
PYTHON = [sys.executable, "-c", MAIN]
HINT = "not found; lbrun runs a program; for a shell line, use lbrun sh -c 'LINE'"
BUILT_IN = "not found; it is built into the shell; use lbrun sh -c 'LINE'"
VARIABLE = "not found; to set a variable, use lbrun -e NAME=VALUE COMMAND"


@pytest.mark.parametrize("options", [(), ("--timeout", "60")], ids=["plain", "supervised"])
@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["echo hi; cat /etc/passwd"], HINT),
        (["echo hi"], HINT),
        (["no-such-command"], "not found"),
        (["no such command", "x"], "not found"),
        (["./none"], "No such file or directory"),
        (["umask"], BUILT_IN),
        (["cd", "/tmp"], BUILT_IN),
        (["LBD_1=x", "printenv", "LBD_1"], VARIABLE),
        (["1a=x"], "not found"),
        (["=x"], "not found"),
    ],
)
def test_a_command_for_a_shell_is_recognised(tmp_path, program, options, command, why):
    (tmp_path / "lbd.toml").write_text(f'runtime_dir = "{tmp_path}"\n')
    environment = {**os.environ, "LBD_CONFIG": str(tmp_path / "lbd.toml")}
    result = subprocess.run(
        [*program, "--local", *options, *command],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 127
    assert result.stderr.splitlines()[-1] == f"lbrun: {command[0]}: {why}"


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ([b"ls -l"], HINT), ([b"cd", b"/tmp"], BUILT_IN), ([b"A=1", b"x"], VARIABLE),
        ([b"gccc"], "not found"), ([b"./none"], "No such file or directory"),
    ],
)  # fmt: skip
def test_and_by_another_host(command, why):
    request = RunRequest(argv=command)
    name = command[0].decode()
    assert explain(request, SpawnFailed("exec", errno.ENOENT)) == f"{name}: {why}"
