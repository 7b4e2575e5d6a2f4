"""`python deploy/describe DIR`: manual pages and completion of every program, below DIR.

The pages have the date of the source (source_date.py).

DIR is like /usr/share or .venv/share: man looks in DIR/man for whoever has DIR/../bin in PATH, and
bash, zsh and fish have a directory there each.

Why not by shtab and argparse-manpage: set-up runs this in every venv, which would need them too;
they read one tree of argparse parsers, where ours are made command by command and lbrun and lbsh
have none; and shtab stops at `lbrun -v make`, whose next words are those of make.
"""

import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from deploy.describe import bash, fish, manual, zsh
from deploy.describe.program import programs
from deploy.describe.settings import settings
from deploy.describe.source_date import date_of_source
from deploy.reference.facts import EXITS


def main(root: Path) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime(date_of_source()))
    known = programs()
    pages = {(p.name, manual.section_of(p.name)): manual.page(p, known, day, EXITS) for p in known}
    pages["lbd.toml", 5] = manual.settings_page([*settings()], known, day)
    for (name, section), text in pages.items():
        write(root / f"man/man{section}/{name}.{section}", text)
    for program in known:
        name = program.name
        write(root / f"bash-completion/completions/{name}", bash.completion(program))
        write(root / f"zsh/vendor-completions/_{name}", zsh.completion(program))
        write(root / f"fish/vendor_completions.d/{name}.fish", fish.completion(program))


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python deploy/describe DIR")
    main(Path(sys.argv[1]))
