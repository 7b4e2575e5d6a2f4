"""The README and the book below docs/: up to date, complete, and true to the programs' options."""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from deploy.describe.program import Program, programs
from deploy.describe.settings import comments, settings
from deploy.reference.__main__ import outdated
from tests.book import COMMANDS, PAGES, README, ROOT, TUTORIAL, blocks

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
PROSE = [page for page in PAGES if page.parent.name != "reference"]
KEYS = {setting.key for setting in settings()}
SECTIONS = "|".join(sorted({key.partition(".")[0] for key in KEYS}))
SETTING = re.compile(rf"`((?:{SECTIONS})\.(?!conf\b)[a-z_]+)")
BEFORE_A_COMMAND = ("lbrun", "lbctl explain", "lbctl eligible")
HEADING = re.compile(r"^#+ +(.*)$", re.M)


def test_every_setting_has_a_description():
    silent = {name for name, text in comments().items() if not text}
    obvious = {"Bounds", "HostEntry", "Config"}
    assert {name for name in silent if name[0] not in obvious} == set()


def test_the_reference_matches_the_source():
    assert outdated() == [], "run: .venv/bin/python deploy/reference"


def test_a_page_that_was_changed_by_hand_is_noticed(tmp_path, monkeypatch):
    shutil.copytree(ROOT / "docs/reference", tmp_path, dirs_exist_ok=True)
    (tmp_path / "states.md").write_text("something else\n")
    monkeypatch.setattr("deploy.reference.__main__.FOLDER", tmp_path)
    assert outdated() == ["states.md"]


def test_the_readme_is_short():
    text = README.read_text()
    assert text.count("\n") <= 250
    assert len(text.encode()) <= 16 * 1024


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        there = (page.parent / target).resolve() if target else page
        assert there.exists(), f"{page.name}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there.read_text()), f"{page.name}: {target}#{anchor}"


def anchors_of(text: str) -> set[str]:
    plain = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in HEADING.findall(text)]
    return {re.sub(r"[-\s]+", "-", heading) for heading in plain}


@pytest.mark.parametrize("page", [README, *TUTORIAL], ids=lambda page: page.name)
def test_each_block_is_run_or_names_the_test_that_does_the_same(page):
    found = [block for block in blocks(page) if block.language in COMMANDS]
    assert found
    for block in found:
        kind, _, text = block.mark.partition(": ")
        assert kind in ("", "tested", "not run"), block.place
        if kind:
            assert text, block.place
        if kind == "tested":
            path, _, name = text.partition("::")
            assert name in functions_in(path), f"{block.place}: {text}"


def functions_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.fixture(scope="module")
def known() -> dict[str, Program]:
    return {item.name: item for program in programs() for item in program.all()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_written_as_the_programs_accept_them(page, known):
    for block in blocks(page):
        if block.language in COMMANDS:
            for words in commands_in(block.text):
                assert fault_of(words, known) == "", f"{block.place}: {shlex.join(words)}"


@pytest.mark.parametrize("page", PROSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_and_commands_in_the_text_exist(page, known):
    text = page.read_text()
    assert {key for key in SETTING.findall(text) if key not in KEYS} == set()
    for code in re.findall(r"`((?:lbctl|lbd|lbrun) [^`\n]+)`", text):
        for words in commands_in(code.replace("…", "")):
            assert fault_of(words, known) == "", f"{page.name}: {code}"


def commands_in(text: str) -> list[list[str]]:
    """Returns the calls of our programs in a block, each as its words."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        try:
            lexer = shlex.shlex(line.removeprefix("$ "), posix=True, punctuation_chars="|&;()")
            lexer.whitespace_split = True
            words = [*lexer]
        except ValueError:  # a quote that ends on a later line
            continue
        starts = [n for n, word in enumerate(words) if word in ("lbd", "lbctl", "lbrun", "lbsh")]
        found += [words[n:] for n in starts if n == 0 or words[n - 1] in ("|", "&&", "||", ";")]
    return found


def fault_of(words: list[str], known: dict[str, Program]) -> str:
    """Returns what the program would reject of `words`; "" if it accepts them."""
    name, rest = words[0], words[1:]
    while known[name].commands and rest and not rest[0].startswith("-"):
        name = f"{name} {rest.pop(0)}"
        if name not in known:
            return f"no command {name}"
    if name == "lbsh":
        return ""
    takes = {flag: bool(o.value) for o in known[name].options for flag in o.flags}
    while rest:
        word = rest.pop(0)
        if word in ("|", "&&", "||", ";", "--") or word.startswith(("#", ">", "<")):
            break
        if word.startswith("-") and word != "-":
            flag, given, _ = word.partition("=")
            if flag not in takes:
                return f"no option {flag}"
            if takes[flag] and not given:
                rest = rest[1:]
        elif name in BEFORE_A_COMMAND:
            break  # the other command begins
    return ""


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("lbctl drain h3 --wait | cat", ""),
        ("lbctl drian h3", "no command lbctl drian"),
        ("lbrun -q --frobnicate make", "no option --frobnicate"),
        ("lbrun --timeout 5 make --frobnicate", ""),
    ],
)
def test_a_wrong_command_is_noticed(line, fault, known):
    [words] = commands_in(line)
    assert fault_of(words, known) == fault


def test_the_book_is_built_and_needs_no_network(tmp_path):
    if importlib.util.find_spec("mkdocs") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no mkdocs: deploy/setup --dev")
    built = subprocess.run(
        [ROOT / "deploy/book/build", tmp_path / "book"], capture_output=True, text=True,
        env={**os.environ, "PYTHON": sys.executable}, timeout=120,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    loaded = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"?(https?:)?//", re.I)
    pages = sorted((tmp_path / "book").rglob("*.html"))
    assert len(pages) > len(TUTORIAL)
    for page in pages:
        assert not loaded.search(page.read_text()), page.name


def test_messages_of_the_troubleshooting_page_are_those_of_the_programs():
    sources = [*(ROOT / "lbd").rglob("*.py"), *(ROOT / "lbd").rglob("*.c")]
    said = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in sources))
    rows = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs/how-to/troubleshoot.md").read_text(), re.M)
    assert len(rows) > 20
    for message in rows:
        for part in filter(None, map(str.strip, message.split("…"))):
            assert part in said, f"{message}: no program says {part!r}"
