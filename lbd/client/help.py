"""The parts of `lbrun` that inform rather than run: --help, --version, --explain."""

import sys
from typing import TYPE_CHECKING

from lbd import __version__

if TYPE_CHECKING:
    from lbd.client.options import Options

HELP = """\
usage: lbrun [OPTIONS] [--] COMMAND [ARG…]

Run one command on the host where it ends soonest, by measured load, as if it ran here.

  -H, --host NAME       run there, whatever the load
  -x, --exclude NAME    never there (repeatable)
  --local, --remote     never leave this host; never stay
  --no-fallback         fail (125) rather than run here when the chosen host cannot
  -n, --slots N         the slots it needs on one host; 2-8: as many as are free, in $LBD_SLOTS
  --need NAME[=AMOUNT]  a resource of the host (repeatable): gpu, gpu=2, scratch=50G; what it got
                        is in $LBD_RESOURCE_GPU; it waits while all are in use
  --feature NAME        only hosts that have it (repeatable): avx2, big (lbctl status --json)
  --not-feature NAME    only hosts that lack it (repeatable)
  --speedup A[,SIGMA]   with -q or -d and -n 2-8: its average parallelism and the variance of that
  --work DUR            the same: its CPU time on one slot; with --target or --deadline, the time
                        of one task. Without them all this is learnt
  -q, --queue           through the queue; wait for the end and show its output
  -d, --detach          queue it, print the job's id, return; see lbctl jobs, logs, wait
  --priority N          with -q or -d: higher goes first; above 0 for administrators
  --array LIST          with -q or -d: a task for each index, in $LBD_ARRAY_INDEX: 1-10, 0-100:10,
                        1,3,7-9; with %N at the end, N of them at once
  --target DUR          with --array: as many tasks at once as it takes to be done in that time,
                        and no more
  --deadline TIME       the same, to be done by 17:30, 2026-12-01T06:00 or +2h
  --after ID[,ID…]      with -q or -d: begins once those have succeeded, of an array all of it
                        (ID may be `last`)
  --after-ok ID[,ID…]   another name of --after
  --after-failed ID[,ID…]
                        with -q or -d: begins once those have failed, were cancelled or lost
  --after-any ID[,ID…]  with -q or -d: begins once those have ended in whatever way
  --after-task ID       with --array: each task once that array's task of its index has succeeded
  --notify COMMAND      with -q or -d: when it has ended, `sh -c COMMAND` runs here, once, with
                        $LBD_JOB_ID, $LBD_STATE and $LBD_EXIT_STATUS, for a minute at most
  --begin TIME          with -q or -d: not before 17:30, 2026-12-01T06:00 or +2h
  --gang                with --array: all begin together or none; $LBD_GANG_HOSTS has their hosts
  -o, --output FILE     with -d: where its output goes, while it runs (%j job id, %A that of its
                        array, %a its index there, %h host); each attempt writes it from the start
  --append              with -o or --error: write to the end of the file, each attempt too
  --error FILE          the same for standard error; without it that goes to -o's file, too
  --checkpoint DIR      with -q or -d: exit status 85 means "stopped here, go on later"; the job
                        finds DIR in $LBD_CHECKPOINT
  --idempotency-key KEY
                        with -q or -d: the same key twice is the same job
  --timeout DUR         wall-clock limit (exit 124): 90, 20s, 2m, 1h30m
  --mem SIZE            memory limit: 512K, 2G; below 1024 only with a unit; with -q and -d the
                        host must also have so much that no job has been given
  --name TEXT           a label for `lbctl jobs`
  --no-stdin            empty standard input; ours stays unread (for loops)
  --no-restart          never run it a second time: neither after a lost host (only -q and -d do
                        that) nor elsewhere because the owner of its host is back
  -C, --chdir DIR       working directory
  -e, --env NAME=VALUE  extra environment (repeatable); NAME alone: ours, even if withheld
  --clean-env           no environment but PATH, HOME, USER, LOGNAME, SHELL, TERM, LANG, LC_*, TZ
  --send PATH           a file or directory that goes along (repeatable): the command then runs in
                        a private directory of the other host; with -q and -d each attempt does
  --fetch PATH          one that comes back from there, whole or not at all (repeatable); with -d
                        when the job has ended; %a, %j and %h in it as in --output
  -t, --tty             a terminal for the command, also if there is none here
  -T, --no-tty          none there, also if there is one here
  --status-file FILE    JSON at the end: host, exit status, signal, attempt, cause
  --explain             print the ranked hosts, the decision and its reason; run nothing
  --json                with --explain: the same as JSON
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
        from shutil import get_terminal_size

        from lbd.text.fitted_help import fitted

        sys.stdout.write(fitted(HELP, get_terminal_size().columns))
    elif "version" in options.plain:
        print(f"lbrun {__version__}")
    else:
        return explain(options)
    sys.stdout.flush()
    return 0


ANSWER_S = 5.0


def explain(options: "Options") -> int:
    from lbd.client.complaints import FAILED, encode, say
    from lbd.client.daemons import ask
    from lbd.client.lbm_socket import find_runtime_dirs, is_kept_here
    from lbd.client.surroundings import working_directory
    from lbd.console import decision
    from lbd.console.decision import ask_eligible
    from lbd.errors import LbdError

    command, as_json = options.command, "json" in options.plain
    directories = find_runtime_dirs(options.values.get("config"))
    request = decision.place_request(
        options.values.get("host"),
        options.excluded,
        "remote" in options.plain,
        "local" in options.plain,
        options.needs,
    )
    asked = decision.question(
        request, options.command, working_directory(options), options.values.get("chdir", "")
    )
    asked["staged"] = bool(options.send or options.fetch)
    asked["kept"] = is_kept_here(options.values.get("config"), [encode(w) for w in command])
    try:
        reply = decision.ask_both(
            lambda asked: ask(directories, "lbm", asked, ANSWER_S),
            lambda request: ask(directories, "lim", request, ANSWER_S),
            request,
            asked,
        )
        eligible = None
        if as_json:  # who asks lbrun has not asked about lbsh
            eligible = ask_eligible(
                lambda request: ask(directories, "lbm", request, ANSWER_S), command
            )
    except LbdError as problem:
        say(str(problem))
        return FAILED
    trouble = decision.trouble_here(reply, asked)
    decision.show(reply, command, as_json, eligible, trouble)
    sys.stdout.flush()
    return 0
