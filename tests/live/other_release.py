"""Runs a daemon as another release: `python other_release.py NEWEST OLDEST DAEMON …`.

Only the release that it announces differs; the code is this release's.
"""

import sys
from importlib import import_module

import lbd

if __name__ == "__main__":
    newest, oldest, *words = sys.argv[1:]
    lbd.__version__ = "9.9"  # before any module copies it
    wire = import_module("lbd.net.release")
    wire.OWN = wire.Wire("9.9", int(newest), int(oldest))
    sys.exit(import_module("lbd.cli.main").main(words))
