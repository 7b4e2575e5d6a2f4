"""`python deploy/describe DIR`: manual pages and completion of every program, below DIR.

DIR is like /usr/share or .venv/share: man looks in DIR/man for whoever has DIR/../bin in PATH, and
bash, zsh and fish have a directory there each.
"""

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from deploy.describe import bash, fish, manual, zsh
from deploy.describe.program import programs
from deploy.describe.settings import settings


def main(root: Path) -> None:
    now_s = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    known = programs()
    pages = {(p.name, manual.section_of(p.name)): manual.page(p, known, now_s) for p in known}
    pages["lbd.toml", 5] = manual.settings_page([*settings()], known, now_s)
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
