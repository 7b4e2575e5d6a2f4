"""Every key of lbd.toml with what the code says of it: for docs/reference and lbd.toml(5)."""

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass

from lbd.config.fields import NAMES, NUMBERS, bounds_of, shown
from lbd.config.schema import Config


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    default: str
    allowed: str
    meaning: str


def settings() -> Iterator[Setting]:
    said = comments()
    for section in fields(Config):
        if not is_dataclass(section.type):
            continue
        for item in fields(section.type):
            bounds = str(bounds_of(item.metadata)).replace(" | ", ", ")
            kind = {
                bool: "true, false", str: "text", NAMES: "list of names",
                NUMBERS: "list of numbers",
            }.get(item.type, "list of tables")  # fmt: skip
            default = "[]" if item.default in ((), MISSING) else shown(item.default)
            meaning = said[section.type.__name__, item.name]
            key = item.metadata.get("key", item.name)
            default = item.metadata.get("default", default)
            kind = item.metadata.get("allowed", kind)
            yield Setting(f"{section.name}.{key}", default, bounds or kind, meaning)


def comments() -> dict[tuple[str, str], str]:
    """(class, field) -> its comment: what follows it on its line, else the lines above it."""
    sections = [item.type for item in fields(Config) if is_dataclass(item.type)]
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
