"""A shell line given as one word, as ssh accepts it, is answered with the right way to do it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMPILED = [str(Path(sys.executable).with_name("lbrun"))]
MAIN = "import sys; sys.argv[0] = 'lbrun'; from lbd.client.lbrun import main; main()"
PYTHON = [sys.executable, "-c", MAIN]
HINT = "not found; lbrun runs a program; for a shell line, use lbrun sh -c 'LINE'"


@pytest.mark.parametrize("options", [(), ("--timeout", "60")], ids=["plain", "supervised"])
@pytest.mark.parametrize("program", [COMPILED, PYTHON], ids=["compiled", "python"])
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["echo hi; cat /etc/passwd"], HINT),
        (["echo hi"], HINT),
        (["no-such-command"], "not found"),
        (["no such command", "x"], "not found"),
    ],
)
def test_a_shell_line_is_recognised(tmp_path, program, options, command, why):
    (tmp_path / "lbd.toml").write_text(f'runtime_dir = "{tmp_path}"\n')
    environment = {**os.environ, "LBD_CONFIG": str(tmp_path / "lbd.toml")}
    result = subprocess.run(
        [*program, "--local", *options, *command],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert result.returncode == 127
    assert result.stderr.splitlines()[-1] == f"lbrun: {command[0]}: {why}"
