"""The pages of the book and the README, and the blocks of code in them.

A block that cannot be run as it stands has a comment on the line before it, which readers do not
see: `<!-- tested: tests/…::test_… -->` names the test that does the same, and `<!-- not run: REASON
-->` says why there is none.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
TUTORIAL = sorted((DOCS / "tutorial").glob("*.md"))
PAGES = [README, *sorted(DOCS.rglob("*.md"))]
COMMANDS = ("sh", "console")
FENCE = re.compile(
    r"(?:^ *<!-- (?P<mark>[^>]*) -->\n)?^(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)"
    r"^(?P=indent)```$",
    re.M | re.S,
)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    mark: str  # the comment before the block

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    text = page.read_text()
    return [
        Block(
            page, text.count("\n", 0, found.start("text")) + 1, found["language"],
            dedent(found["text"]), found["mark"] or "",
        )
        for found in FENCE.finditer(text)
    ]  # fmt: skip


def to_run(page: Path) -> list[Block]:
    """Commands that run as they stand, and the output that the page shows for them."""
    return [block for block in blocks(page) if not block.mark]


def check_shown(shown: str, output: str, place: str) -> None:
    """Checks that every shown line is in the output, in this order. Words with a digit or a slash
    differ from run to run and are not compared."""
    rest = output
    for line in filter(None, shown.splitlines()):
        at = re.search(pattern_of(line), rest, re.M)
        assert at, f"{place}: {line!r} is not in\n{output}"
        rest = rest[at.end() :]


def pattern_of(line: str) -> str:
    words = [
        r"\S+(?: ?(?:ms|s))?" if re.search(r"[\d/–█·]", word) else re.escape(word)
        for word in line.split()
        if word not in ("ms", "s")
    ]
    return r"^\s*" + r"\s+".join(words) + r"\s*$"
