"""How the C programs are built: hardened where the compiler supports it, built in any case."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPARE = ROOT / "lbd/keeper/spare.c"
ELF_TYPE, SHARED = slice(16, 18), b"\3\0"  # at another address each time

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="no C compiler")


def compiled(program, *flags, **environment):
    subprocess.run(
        [ROOT / "deploy/compile", SPARE, program, *flags],
        env={**os.environ, **environment}, check=True,
    )  # fmt: skip
    return program.read_bytes()


def test_stack_buffers_and_library_calls_are_protected(tmp_path):
    found = compiled(tmp_path / "spare")
    assert b"__stack_chk_fail" in found
    assert b"_chk" in found.replace(b"__stack_chk_fail", b"")


def test_the_program_that_runs_as_root_has_another_address_each_time(tmp_path):
    assert compiled(tmp_path / "spare", "-fPIE")[ELF_TYPE] == SHARED
    assert '"spare", "-fPIE")' in (ROOT / "deploy/wheel.py").read_text()


def test_a_compiler_that_supports_none_of_it_builds_it_too(tmp_path):
    cc = tmp_path / "cc"
    cc.write_text('#!/bin/sh\ncase "$*" in *-fstack-*|*-static*) exit 1 ;; esac\nexec cc "$@"\n')
    cc.chmod(0o755)
    assert b"__stack_chk_fail" not in compiled(tmp_path / "spare", CC=str(cc))


def test_a_warning_does_not_stop_the_build(tmp_path):
    assert "-Werror" not in (ROOT / "deploy/compile").read_text()
    assert compiled(tmp_path / "spare", "-Wno-such-warning", "-Wconversion", "-Waggregate-return")


@pytest.mark.parametrize(
    "module", ["lbd.local.client_tags", "lbd.keeper.user_and_start_steps", "lbd.client.shell.shim"]
)
def test_the_letters_of_frames_are_those_of_python(module):
    made = subprocess.run(
        [sys.executable, ROOT / "deploy/letters", module],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert (ROOT / module.replace(".", "/")).with_suffix(".h").read_text() == made, (
        "not current: run deploy/generate"
    )


def test_building_a_package_without_a_compiler_fails_before_anything_is_built(tmp_path):
    def check(program, *words, **environment):
        return subprocess.run(
            [ROOT / program, *words], env={**os.environ, **environment}, capture_output=True,
            text=True,
        )  # fmt: skip

    assert check("deploy/compile", "--check").returncode == 0
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname"):
        (tools / name).symlink_to(shutil.which(name))
    none = {"PATH": str(tools), "CC": "none", "PYTHON": sys.executable}
    refused = check("deploy/tree", str(tmp_path / "root"), **none)
    assert refused.returncode == 1
    assert refused.stderr.startswith("deploy/tree: no C compiler here, so lbrun and lbsh would ")
    assert "apt-get install gcc libc6-dev" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (tmp_path / "root").exists()
