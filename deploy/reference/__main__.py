"""`python deploy/reference`: writes the generated pages of docs/reference.

Options come from the programs' own parsers, settings from the fields of lbd/config, states and
ports from the code. `--check` writes nothing, and fails if a page is not what would be written.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from deploy.describe.program import programs
from deploy.reference.facts import algorithms_page, exit_page, files_page, states_page
from deploy.reference.metrics import metrics_page
from deploy.reference.programs import program_page
from deploy.reference.settings import settings_page

FOLDER = ROOT / "docs/reference"
MADE = "<!-- Written by deploy/reference from the source: change it there. -->\n\n"


def pages() -> dict[str, str]:
    """Name of a file -> its text."""
    found = {f"{program.name}.md": program_page(program) for program in programs()}
    found |= {
        "settings.md": settings_page(),
        "states.md": states_page(),
        "exit-statuses.md": exit_page(),
        "files-and-ports.md": files_page(),
        "algorithms.md": algorithms_page(),
        "metrics.md": metrics_page(),
    }
    return {name: MADE + text.rstrip() + "\n" for name, text in found.items()}


def outdated() -> list[str]:
    """Pages that are missing or not what the source says."""
    return sorted(
        name
        for name, text in pages().items()
        if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text
    )


def main(argv: list[str]) -> int:
    if argv not in ([], ["--check"]):
        print("usage: python deploy/reference [--check]", file=sys.stderr)
        return 2
    old = outdated()
    if argv:
        for name in old:
            print(f"docs/reference/{name} is out of date: run deploy/reference", file=sys.stderr)
        return 1 if old else 0
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
