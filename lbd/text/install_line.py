"""What to type for a library that lbd does without. lbd itself is in no package index yet, so an
extra such as lbd[web] cannot be asked for by name.
"""

import shlex
import sys
from collections.abc import Sequence


def install_line(*requirements: str) -> str:
    """By the Python that runs us, whatever `pip` is first in PATH."""
    return shlex.join([sys.executable or "python3", "-m", "pip", "install", *requirements])


def lacks(what: str, missing: Sequence[str]) -> str:
    return f"{what} needs {', '.join(missing)}: {install_line(*missing)}"
