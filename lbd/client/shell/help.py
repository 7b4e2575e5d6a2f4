"""The output of `lbsh --help` and `--version`."""

import sys
from shutil import get_terminal_size

from lbd import __version__
from lbd.text.fitted_help import fitted

HELP = """\
usage: lbsh [SHELL OPTIONS] [-c STRING [NAME ARG…] | SCRIPT [ARG…] | -s]

Your shell, with commands worth moving run on whichever host has room.

lbsh becomes the real shell, with a private directory of shims first on PATH; all options go to that
shell. With -c, a script or a pipe it is /bin/sh, on a terminal $SHELL; shell.program in lbd.toml
or $LBD_SHELL overrides both.

  --config FILE         lbd.toml to use (as the first option)
  --help, --version     (as the only option)

Exit status: the shell's own; 126 or 127 if the shell cannot be run or found.

examples:
  make -j8 SHELL=lbsh
  lbsh ./configure
  find . -name '*.wav' -print0 | xargs -0 -P8 -I{} lbsh -c 'flac -8 {}'
  SHELL=/usr/local/bin/lbsh in a crontab
  lbctl eligible gcc -c x.c         whether a command would leave, and why
"""


def show(option: str) -> int:
    columns = get_terminal_size().columns
    sys.stdout.write(fitted(HELP, columns) if option == "--help" else f"lbsh {__version__}\n")
    sys.stdout.flush()
    return 0
