"""The command that installs a library lbd can do without.

lbd itself is in no package index yet, so an extra such as lbd[web] cannot be named.
"""

import shlex
import sys
from collections.abc import Sequence


def install_line(*requirements: str) -> str:
    """Uses the Python that runs lbd, whatever `pip` comes first in PATH."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *requirements])


def lacks(what: str, missing: Sequence[str]) -> str:
    return f"{what} needs {', '.join(missing)}: {install_line(*missing)}"
