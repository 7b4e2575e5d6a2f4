"""Runs the commands of the README and of the tutorial as they stand, and compares their output.

A tutorial page is one session from top to bottom, in a home of its own. Each block of the README is
a shell of its own on h1 of a lab, in a directory with the project that the block is about. Words of
shown output are compared; anything with a digit or a slash differs from run to run.
"""

import json
import re
import subprocess

import pytest
from cluster import Lab, client_environment

from tests.book import COMMANDS, README, TUTORIAL, check_shown, pattern_of, to_run

SETTINGS = ("--set", "dispatch.lease_s=3")  # a lost host is given up in seconds
PRELUDE = """\
set -e -o pipefail
cd
lbd() { # each page has its lab in a place of its own
    if [[ $1 == lab ]]; then
        local more=(--dir "$LAB_DIR")
        if [[ $2 == up ]]; then more+=(@SETTINGS@); fi
        command lbd lab "$2" "${more[@]}" "${@:3}"
    else
        command lbd "$@"
    fi
}
lbctl() { # that table is shown as on a terminal
    case $1 in
        status) python3 -c "$ON_TERMINAL" lbctl "$@" ;;
        *) command lbctl "$@" ;;
    esac
}
mkdir -p deploy
printf '#!/bin/sh\\n' > deploy/setup # what it would install is there
chmod +x deploy/setup
trap 'lbd lab down >/dev/null 2>&1 || true' EXIT
"""
# of 82 columns: 80, and room for `844.6M/23.5G` where a page has `1.0G/7.8G`
ON_TERMINAL = """
import os, pty, sys
wide = ["sh", "-c", 'stty cols 82; exec "$@"', "sh"]
sys.exit(os.waitstatus_to_exitcode(pty.spawn([*wide, *sys.argv[1:]])))
"""
PROJECT = {
    "fit.py": "print('fitted')\n",
    "fit": "#!/bin/sh\necho index $LBD_ARRAY_INDEX\n",
    "simulate": "#!/bin/sh\necho simulated $1\n",
    "main.c": "int main(void) { return 0; }\n",
    "Makefile": "test: main\n\t./main\nmain: main.o\n\t$(CC) -o $@ main.o\n",
    "CMakeLists.txt": "cmake_minimum_required(VERSION 3.18)\nproject(x C)\n",
    "one.flac": "", "two.flac": "", "notes.txt": "",
    "bin/flac": "#!/bin/sh\n", "bin/vim": "#!/bin/sh\n",
}  # fmt: skip

# Pages whose every command is run by the tests they name are not here.
ALONE = [page for page in TUTORIAL if any(block.language in COMMANDS for block in to_run(page))]


@pytest.mark.parametrize("page", ALONE, ids=lambda page: page.stem)
def test_a_tutorial_page(page, short_dir):
    found = to_run(page)
    parts = [PRELUDE.replace("@SETTINGS@", " ".join(SETTINGS))]
    for number, block in enumerate(found):
        if block.language in COMMANDS:
            parts += [f"echo '@@ {number}'", block.text]
    script = "\n".join(parts)
    environment = client_environment(
        HOME=str(short_dir), LAB_DIR=str(short_dir / "lab"), NO_COLOR="1", ON_TERMINAL=ON_TERMINAL,
    )  # fmt: skip
    result = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=short_dir, text=True, timeout=180,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert result.returncode == 0, result.stdout
    outputs = dict(re.findall(r"^@@ (\d+)\n((?:(?!@@ ).*\n?)*)", result.stdout, re.M))
    for number, block in enumerate(found):
        if block.language == "text":
            check_shown(block.text, outputs[str(number - 1)], block.place)


@pytest.mark.parametrize(
    ("shown", "printed", "fits"),
    [
        ("task 1", "task 5", True),
        ("hello from h3", "hello  from h1", True),
        ("cc -c  yes  312.0 ms  7", "cc -c  yes  1.02 s  9", True),
        ("exit status 3", "exit state 3", False),
        ("reason   cancelled", "no reason cancelled", False),
    ],
)
def test_the_comparison_of_shown_output(shown, printed, fits):
    assert bool(re.search(pattern_of(shown), printed, re.M)) == fits


@pytest.fixture(scope="module")
def readme_lab():
    lab = Lab.up(3, "none", "--mode", "fcfs")
    yield lab
    lab.down()


@pytest.mark.parametrize(
    "block",
    [block for block in to_run(README) if block.language in COMMANDS],
    ids=lambda block: str(block.line),
)
def test_a_block_of_the_readme(block, readme_lab, short_dir):
    for name, text in PROJECT.items():
        path = short_dir / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    environment = readme_lab.environment("h1", HOME=str(short_dir), LAB_DIR=str(short_dir / "lab"))
    environment |= {"PATH": f"{short_dir}/bin:{environment['PATH']}", "ON_TERMINAL": ON_TERMINAL}
    prelude = PRELUDE.replace("@SETTINGS@", " ".join(SETTINGS))
    result = subprocess.run(
        readme_lab.command("h1", "bash", "-c", f"{prelude}\n{block.text}"),
        env=environment, cwd=short_dir, text=True, timeout=120, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert result.returncode == 0, f"{block.place}\n{result.stdout}"


FIELDS = (README.parent / "docs/reference/json.md").read_text().split("\n## ")[1:]
ASKED = {  # each field is in one of the answers
    "lbctl wait": ["lbctl wait --json 1"],
    "lbctl jobs": [
        "lbctl jobs --all --json", "lbctl jobs --all --tasks --json",
        "lbctl job --json $(lbrun -d --array 1-2 true)",
        "lbrun sleep 60 & until id=$(lbctl jobs --format id,command | grep sleep); do :; done; "
        "lbctl kill ${id%% *} >&2; wait; lbctl jobs --all --json",
    ],
    "lbctl job": [
        "lbctl job --json 1", "lbrun --status-file f -H h2 true; lbctl job --json h1-1",
        "lbctl job --json $(lbrun -d --array 1-2 true)",
    ],
    "lbctl kill": ["lbctl kill --json $(lbrun -d sleep 60)"],
    "lbctl logs": [
        "lbctl logs --json $(lbrun -d true)", "lbrun -H h2 true; lbctl logs --json h1-1",
    ],
    "lbctl status": ["lbctl status --json", "lbctl status h1 --json"],
    "lbctl param": ["lbctl param --json", "lbctl param min_gain 0.2 --json"],
    "lbctl explain": ["lbctl explain --json true"],
    "lbctl predict": ["lbctl predict -n 1-2 --work 2 --json"],
    "lbrun --status-file": ["lbrun --status-file f -H h2 true && cat f"],
}  # fmt: skip
# said only then
IN_TROUBLE = {"cluster.dispatcher_unknown", "cluster.dispatcher.full", "unknown", "nobody_takes"}


@pytest.mark.parametrize("section", FIELDS, ids=lambda section: section.partition("\n")[0])
def test_json_has_the_fields_of_the_reference(section, readme_lab, short_dir):
    title = section.partition("\n")[0]
    named = [path for row in re.findall(r"^\| (`.*?) \|", section, re.M) for path in paths_in(row)]
    assert named, title
    readme_lab.run("h1", "lbrun", "-q", "true", check=True)
    answers = []
    for asked in ASKED.get(title, [f"{title} --json"]):
        answer = readme_lab.run("h1", "sh", "-c", asked, cwd=short_dir, check=True)
        said = json.loads(answer.stdout)
        answers += said if isinstance(said, list) else [said]
    for path in set(named) - IN_TROUBLE:
        assert any(has(answer, path) for answer in answers), f"{title}: {path}"


def paths_in(row):
    """The paths of a row: `a.b`, `.c`, `d`. One that starts with a dot has the parent of the
    first."""
    found = re.findall(r"`([^`]+)`", row)
    parent = found[0].partition(".")[0] if "[]" in found[0] or "." in found[0] else ""
    if found[0].startswith("cluster.dispatcher."):
        parent = "cluster.dispatcher"
    return [parent + path if path.startswith(".") else path for path in found]


def has(value, path):
    """Whether the field is there; the fields inside an empty list or null count as there."""
    head, _, rest = path.partition(".")
    name = head.removesuffix("[]")
    if name not in value:
        return False
    inner = value[name]
    if head.endswith("[]"):
        inner = inner[0] if inner else None
    return not rest or inner is None or has(inner, rest)


@pytest.mark.parametrize(
    ("path", "there"),
    [("a.b", True), ("a.c", False), ("l[].x", True), ("l[].y", False), ("n.z", True)],
)
def test_the_search_for_a_field(path, there):
    assert has({"a": {"b": 1}, "l": [{"x": 2}], "n": None}, path) == there
