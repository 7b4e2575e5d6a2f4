"""Manual pages and completion, generated from the programs' own descriptions."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.describe import program as description
from deploy.describe.program import from_text, options_of, programs
from lbd.cli import lbctl, main
from lbd.client import options as lbrun_options
from lbd.client.help import HELP
from lbd.client.help import show as show_lbrun
from lbd.client.shell.help import show as show_lbsh
from tests.live.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("man8/lbd.8", "man1/lbctl.1", "man1/lbrun.1", "man1/lbsh.1", "man5/lbd.toml.5")
SEARCH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def share(tmp_path_factory):
    made = tmp_path_factory.mktemp("share")
    command = [sys.executable, ROOT / "deploy/describe", made]
    subprocess.run(command, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"})
    return made


def need(program):
    if shutil.which(program) is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"no {program}")


def test_every_command_is_described():
    known = {item.name for program in programs() for item in program.all()}
    assert {f"lbctl {name}" for name in lbctl.COMMANDS} <= known
    assert {f"lbd {name}" for name in main.COMMANDS} <= known
    assert {"lbd lab up", "lbd sim balance", "lbctl tags solve"} <= known


def test_the_help_of_lbrun_has_every_option_it_takes():
    said = {flag: o.value for o in from_text("lbrun", HELP, "command").options for flag in o.flags}
    taken = dict.fromkeys(lbrun_options.PLAIN, False)
    taken |= dict.fromkeys(lbrun_options.WITH_VALUE, True)
    assert said.keys() == taken.keys()
    assert {flag for flag, value in said.items() if bool(value) != taken[flag]} == set()


@pytest.mark.parametrize(
    ("flags", "about", "found"),
    [
        ("-H, --host NAME", "x", [(("-H", "--host"), "NAME")]),
        ("--local, --remote", "a; b", [(("--local",), ""), (("--remote",), "")]),
        ("-h, --help, --version", "", [(("-h", "--help"), ""), (("--version",), "")]),
    ],
)
def test_a_line_of_help(flags, about, found):
    assert [(option.flags, option.value) for option in options_of(flags, about)] == found


@pytest.mark.parametrize("page", PAGES)
def test_a_manual_page_is_valid(share, page):
    need("man")
    need("mandoc")
    path = share / "man" / page
    shown = subprocess.run(
        ["man", "--warnings", "-E", "UTF-8", "-l", path], capture_output=True, text=True,
        env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"}, timeout=120,
    )  # fmt: skip
    assert (shown.returncode, shown.stderr) == (0, "")
    assert path.name.rpartition(".")[0].upper() in shown.stdout
    lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning", path], capture_output=True)
    assert (lint.returncode, lint.stdout) == (0, b"")


def test_the_pages_describe_what_the_programs_do(share):
    assert "never leave this host" in (share / "man/man1/lbrun.1").read_text()
    for page in PAGES[:3]:
        assert "EXIT STATUS" in (share / "man" / page).read_text()
    lbctl_page = (share / "man/man1/lbctl.1").read_text()
    assert "lbctl doctor: It found at least one fault." in lbctl_page
    assert "] \\fBlogin\\fR\n" in lbctl_page, "a word to be typed as it is"
    assert "LOGIN" not in lbctl_page
    assert r"lim.min_gain" in (share / "man/man5/lbd.toml.5").read_text()


def test_a_page_has_a_date_without_being_given_one(tmp_path):
    given = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
    subprocess.run([sys.executable, ROOT / "deploy/describe", tmp_path], check=True, env=given)
    head = (tmp_path / "man/man1/lbctl.1").read_text().partition("\n")[0]
    assert re.match(r'\.TH LBCTL 1 "20\d\d-\d\d-\d\d" ', head)


BASH = """
source @SHARE@/bash-completion/completions/$1
compopt() { :; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_$1
printf '%s\\n' "${COMPREPLY[@]}"
"""
WANTED = [
    ("lbctl dra", {"drain"}),
    ("lbctl --config x tags so", {"solve"}),
    ("lbctl drain --ti", {"--timeout"}),
    ("lbctl algorithm LO", {"LOWEST"}),
    ("lbctl param min", {"min_gain"}),
    ("lbctl tags solve --objective w", {"waiting"}),
    ("lbd lab ki", {"kill"}),
    ("lbd lab up --isolate no", {"none"}),
    ("lbd lim --set lim.po", {"lim.port="}),
    ("lbd lab kill h1 lb", {"lbm"}),
    ("lbrun --no-s", {"--no-stdin"}),
    ("lbrun -v --timeout 5 printen", {"printenv"}),
    ("lbrun --send /etc/passw", {"/etc/passwd"}),
    ("lbsh --vers", {"--version"}),
]


@pytest.mark.parametrize(("line", "wanted"), WANTED)
def test_completion_of_bash(share, line, wanted):
    script = BASH.replace("@SHARE@", str(share))
    result = subprocess.run(
        ["bash", "-c", script, "bash", *line.split(" ")], capture_output=True, text=True,
        env={**os.environ, "PATH": SEARCH}, timeout=90,
    )  # fmt: skip
    assert result.stderr == ""
    assert wanted <= set(result.stdout.split()), result.stdout
    assert all(word.startswith(line.split(" ")[-1]) for word in result.stdout.split())


def test_completion_of_fish(share):
    need("fish")
    lines = [f"source {path}" for path in (share / "fish/vendor_completions.d").iterdir()]
    lines += [f"complete -C '{line}'; echo =" for line, _ in WANTED]
    result = subprocess.run(
        ["fish", "--no-config", "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60,
        env={**os.environ, "PATH": SEARCH},
    )  # fmt: skip
    assert result.stderr == ""
    for (line, wanted), found in zip(WANTED, result.stdout.split("=\n"), strict=False):
        assert wanted <= {row.split("\t")[0] for row in found.splitlines()}, line


STARTS = {
    "bash": "source {share}/bash-completion/completions/lbctl",
    "zsh": "fpath=({share}/zsh/vendor-completions $fpath); autoload -U compinit; compinit -u -D",
}
OPTIONS = {"bash": ("--norc", "--noprofile", "-i"), "zsh": ("-f", "-i")}


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_person_presses_tab(share, shell):
    need(shell)
    environment = {**os.environ, "PATH": SEARCH, "HISTFILE": "", "LC_ALL": "C.UTF-8"}
    with Terminal([shell, *OPTIONS[shell]], environment) as terminal:
        terminal.send(STARTS[shell].format(share=share) + "; echo $((40 + 2))\r")
        terminal.wait_for("42")
        terminal.send("lbctl() { printf '<%s>' \"$@\"; echo; }\r")
        terminal.send("lbctl dra\t--wa\t\r")
        terminal.wait_for("<drain><--wait>")
        terminal.send("lbctl alg\tLOW\t\r")
        terminal.wait_for("<algorithm><LOWEST>")


def test_no_help_is_wider_than_a_common_terminal(capsys, monkeypatch):
    texts = []

    class Noted(description.Caught):
        def __init__(self, parser):
            super().__init__(parser)
            monkeypatch.setenv("COLUMNS", "80")
            texts.append(parser.format_help())

    monkeypatch.setattr(description, "Caught", Noted)
    programs()
    show_lbrun(lbrun_options.read_options(["--help"]))
    show_lbsh("--help")
    texts.append(capsys.readouterr().out)
    assert len(texts) > 80
    assert [line for text in texts for line in text.splitlines() if len(line) > 80] == []
