"""The README's configuration table is drawn from lbd/config*.py, comments included.

`python tests/unit/test_readme.py` (from the top, in .venv) writes it anew.
"""

import ast
import inspect
import sys
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path

from lbd import config

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- configuration -->\n", "<!-- /configuration -->\n"


def comments() -> dict[tuple[str, str], str]:
    """(class, field) -> its comment: what follows it on its line, else the lines above it."""
    sections = [item.type for item in fields(config.Config) if is_dataclass(item.type)]
    found = {}
    for module in {section.__module__ for section in sections}:
        found |= comments_in(inspect.getsource(sys.modules[module]))
    return found


def comments_in(source: str) -> dict[tuple[str, str], str]:
    lines = source.splitlines()
    found = {}
    for node in ast.parse(source).body:
        for item in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                text = lines[item.end_lineno - 1].partition("  # ")[2]
                found[node.name, item.target.id] = text or lines_above(lines, item.lineno - 1)
    return found


def lines_above(lines: list[str], at: int) -> str:
    first = at
    while first > 0 and lines[first - 1].strip().startswith("# "):
        first -= 1
    return " ".join(line.strip()[2:] for line in lines[first:at])


def table() -> str:
    said = comments()
    rows = ["| key | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    for section in fields(config.Config):
        if not is_dataclass(section.type):
            continue
        for item in fields(section.type):
            bounds = str(config.bounds_of(item.metadata)).replace(" | ", ", ")
            kind = {bool: "true, false", str: "text", config.NAMES: "list of names"}.get(
                item.type, "list of tables"
            )
            default = "[]" if item.default in ((), MISSING) else config.shown(item.default)
            meaning = said[section.type.__name__, item.name]
            key = f"{section.name}.{item.name}"
            rows.append(f"| `{key}` | `{default}` | {bounds or kind} | {meaning} |")
    return "\n".join(rows) + "\n"


def test_every_field_says_what_it_is():
    silent = {name for name, text in comments().items() if not text}
    obvious = {"Bounds", "HostEntry", "Config"}
    assert {name for name in silent if name[0] not in obvious} == set()


def test_the_table_is_current():
    text = README.read_text()
    inside = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert inside == table(), "run: .venv/bin/python tests/unit/test_readme.py"


def main() -> None:
    text = README.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    README.write_text(text[:start] + table() + text[end:])


if __name__ == "__main__":
    sys.exit(main())
