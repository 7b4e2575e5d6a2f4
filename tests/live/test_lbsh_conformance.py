"""The test suites of busybox and bash, script by script: lbsh gives what the shell gives.

Slow scripts are left out. LBD_CONFORMANCE=all runs everything, and hush's suite, too.
"""

import os
import re
import shutil
from dataclasses import replace
from functools import partial

import pytest

from tests.live.cluster import Lab
from tests.live.debian_source import fetch
from tests.live.shell_suites import Run, bash_scripts, build_tools, busybox_scripts, outcomes

ALL = os.environ.get("LBD_CONFORMANCE") == "all"
SLOW = {
    "ash_test/ash-vars/var_LINENO1.tests", "hush_test/hush-vars/var_LINENO1.tests",
    "tests/jobs.tests", "tests/exec.tests", "tests/history.tests", "tests/trap.tests",
    "tests/redir.tests", "tests/read.tests", "tests/lastpipe.tests", "tests/procsub.tests",
    "tests/execscript", "tests/coproc.tests", "tests/varenv.tests", "tests/intl.tests",
}  # fmt: skip
ATTEMPTS = 6  # the output of some scripts depends on process ids and races
# Whether bash has already noticed that a coprocess ended: a race of its own (nameref11.sub).
RACE = re.compile(rb"(?m)^.*\bRO_PID\b.*\n")
# Known differences, and why they are allowed.
KNOWN = {
    "comm.tests": "a script whose first line names lbsh is shown by ps under its shell's name",
}


LAB = partial(Lab.up, 2)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The suites' own directories, and the three programs they call."""
    if os.geteuid() != 0:
        pytest.skip("apt-get source needs root")
    root = tmp_path_factory.mktemp("suites")
    for package, part in (("busybox", "shell"), ("bash", "tests")):
        tree = fetch(package, tmp_path_factory.mktemp(package))
        shutil.copytree(tree / part, root / package / part, symlinks=True)
    build_tools(root / "busybox", root / "tools")
    return root


@pytest.mark.parametrize(
    ("shell", "suite", "find"),
    [("/bin/dash", "busybox", busybox_scripts), ("/bin/bash", "bash", bash_scripts)],
)
def test_every_script_does_what_it_does_in_the_shell(lab, sources, tmp_path, shell, suite, find):
    scripts = [script for script in find(sources / suite) if ALL or is_quick(script)]
    assert len(scripts) > 60
    # Under the shell's own name, which scripts print.
    stand_in = tmp_path / os.path.basename(shell)
    environment = lab.environment("h1", LBD_SHELL=shell)
    stand_in.symlink_to(shutil.which("lbsh", path=environment["PATH"]))
    different = scripts
    for attempt in range(ATTEMPTS):
        made = tmp_path / str(attempt)
        made.mkdir()
        roots = [(shell, made / "plain"), (str(stand_in), made / "lbsh")]
        plain, ours = (
            outcomes(Run(sources / suite, sources / "tools", root, program, environment), different)
            for program, root in roots
        )
        different = [
            script
            for script in different
            if without_races(plain[script]) != without_races(ours[script])
        ]
        if not different:
            break
    unexplained = {
        str(script): (plain[script], ours[script])
        for script in different
        if script.name not in KNOWN
    }
    assert not unexplained


def without_races(outcome):
    return replace(outcome, output=RACE.sub(b"", outcome.output))


def is_quick(script):
    name = str(script)
    left_out = "hush_test" in name or "z_slow" in name or "signals" in name
    return not left_out and not any(name.endswith(slow) for slow in SLOW)
