"""Coverage-guided fuzzing of one target: `fuzz.py TARGET [libFuzzer's arguments]`; see `run`.

atheris (libFuzzer for Python) because it is maintained, has wheels for our Python, and instruments
bytecode, so that a parser in Python is explored branch by branch. What the ordinary tests do with
hypothesis and random numbers needs none of it.
"""

import sys
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[2]))
with atheris.instrument_imports(include=["lbd", "tests.fuzz"]):
    from tests.fuzz.targets import TARGETS

if __name__ == "__main__":
    name = sys.argv.pop(1)
    atheris.Setup([f"fuzz.py {name}", *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()
