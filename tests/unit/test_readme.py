"""The README's configuration table is drawn from lbd/config*.py, comments included.

`python tests/unit/test_readme.py` (from the top, in .venv) writes it anew.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # started by path, too

from deploy.describe.settings import comments, settings

README = Path(__file__).resolve().parents[2] / "README.md"
BEGIN, END = "<!-- configuration -->\n", "<!-- /configuration -->\n"


def table() -> str:
    rows = ["| key | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    rows += [f"| `{s.key}` | `{s.default}` | {s.allowed} | {s.meaning} |" for s in settings()]
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
