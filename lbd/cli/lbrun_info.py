"""The parts of `lbrun` that inform rather than run: --help, --version, --explain."""

import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from lbd import __version__

if TYPE_CHECKING:
    from lbd.cli.lbrun_options import Options

HELP = """\
usage: lbrun [OPTIONS] [--] COMMAND [ARG…]

Run one command on the host where it ends soonest, by measured load, as if it ran here.

  -H, --host NAME       run there, whatever the load
  -x, --exclude NAME    never there (repeatable)
  --local, --remote     never leave this host; never stay
  --no-fallback         fail (125) rather than run here when the chosen host cannot
  -n, --slots N         the slots it needs on one host; 2-8: as many as are free, in $LBD_SLOTS
  -q, --queue           through the queue; wait for the end and show its output
  -d, --detach          queue it, print the job's id, return; see lbctl jobs, logs, wait
  --priority N          with them: higher goes first; above 0 for administrators
  --array A-B           with them: a job for each index, in $LBD_ARRAY_INDEX
  -o, --output FILE     with -d: where its output goes (%j job id, %a array index, %h host)
  --error FILE          the same for standard error; without it that goes to -o's file, too
  --checkpoint DIR      with them: exit status 85 means "stopped here, go on later"; the job
                        finds DIR in $LBD_CHECKPOINT
  --idempotency-key KEY with them: the same key twice is the same job
  --timeout DUR         wall-clock limit (exit 124): 90, 20s, 2m, 1h30m
  --mem SIZE            memory limit: 512K, 2G
  --name TEXT           a label for `lbctl jobs`
  --no-stdin            empty standard input; ours stays unread (for loops)
  --no-restart          never run it a second time after a lost host, nor kill it to begin anew
                        (always so without a queue)
  -C, --chdir DIR       working directory
  -e, --env NAME=VALUE  extra environment (repeatable); NAME alone: ours, even if kept back
  --clean-env           no environment but PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, LC_*, TZ
  --send PATH           a file or directory that goes along (repeatable): the command then runs in
                        a private directory of the other host; with -q and -d each attempt does
  --fetch PATH          one that comes back from there, whole or not at all (repeatable); with -d
                        when the job has ended; %a, %j and %h in it as in --output
  -t, --tty             a terminal on the far side, also if there is none here
  -T, --no-tty          none there, also if there is one here
  --status-file FILE    JSON at the end: host, exit status, signal, attempt, cause
  --explain [--json]    print the ranked hosts, the decision and its reason; run nothing
  -v, --verbose         say on stderr where it ran and why
  --config FILE         lbd.toml to use
  -h, --help, --version

Exit status: the command's own; 128+N when signal N ended it; 124 time limit; 125 lbrun failed;
126 cannot execute; 127 not found.

examples:
  lbrun make -C build test
  lbrun -H h2 nproc
  make -j40 CC="lbrun gcc"
  ls *.wav | xargs -P16 -I{} lbrun flac {}
"""


def show(options: "Options") -> int:
    """What --help, --version or --explain asks for; the exit status."""
    if "help" in options.plain:
        sys.stdout.write(HELP)
    elif "version" in options.plain:
        print(f"lbrun {__version__}")
    else:
        return explain(options)
    sys.stdout.flush()
    return 0


def explain(options: "Options") -> int:
    from lbd.cli import explain as decision
    from lbd.cli.lbctl_eligible import ask_eligible
    from lbd.cli.lbrun_caller import find_runtime_dirs, say, working_directory
    from lbd.cli.lbrun_options import FAILED
    from lbd.errors import LbdError
    from lbd.rpc.local import ask

    command = options.command
    directories = find_runtime_dirs(options.values.get("config"))
    found = [path for path in directories if os.path.exists(f"{path}/lim.sock")]
    request = decision.place_request(
        options.values.get("host"),
        options.excluded,
        "remote" in options.plain,
        "local" in options.plain,
    )
    asked = decision.question(
        request, options.command, working_directory(options), options.values.get("chdir", "")
    )
    asked["staged"] = bool(options.send or options.fetch)
    place = Path((found or directories)[0])
    try:
        reply = decision.ask_both(
            lambda asked: ask(place / "lbm.sock", asked),
            lambda request: ask(place / "lim.sock", request),
            request,
            asked,
        )
        eligible = ask_eligible(lambda request: ask(place / "lbm.sock", request), command)
    except LbdError as problem:
        say(str(problem))
        return FAILED
    trouble = decision.trouble_here(reply, asked)
    decision.show(reply, command, "json" in options.plain, eligible, trouble)
    sys.stdout.flush()
    return 0


def runtime_dir_of(path: bytes) -> str:
    """`host.runtime_dir` where it is written in an unusual way. Raises Trouble."""
    from lbd.cli.lbrun_options import Trouble

    try:
        with open(path, "rb") as file:
            found = tomllib.load(file).get("host", {}).get("runtime_dir")
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise Trouble(f"{os.fsdecode(path)}: {problem}") from None
    if not isinstance(found, str):
        raise Trouble(f"{os.fsdecode(path)}: host.runtime_dir is not a string")
    return found
