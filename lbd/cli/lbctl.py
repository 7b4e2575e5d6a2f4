"""`lbctl`: look at the cluster and steer it. Data goes to stdout, everything else to stderr.

A command is imported when it is asked for; what each does is said here, for the list of them all.
"""

import importlib
import sys
from typing import TYPE_CHECKING

from lbd.cli.complaints import Errors, guard
from lbd.cli.program import command_line

if TYPE_CHECKING:
    from lbd.cli.ctl.verb import Verb

# By the module whose VERBS they are.
VERBS = {
    "lbd.cli.ctl.status": {
        "status": "cluster, algorithm, coordinator, a line per host",
    },
    "lbd.cli.ctl.top.program": {"top": "the same, live, with jobs and queue; ? shows its keys"},
    "lbd.cli.ctl.jobs.listing": {"jobs": "what runs now; --all: and what ended recently"},
    "lbd.cli.ctl.jobs.history": {"history": "what has ended, on the whole cluster"},
    "lbd.cli.ctl.jobs.verbs": {
        "job": "one job: where it runs, with each of its attempts",
        "logs": "what a queued job has printed; -f: and prints",
        "wait": "until jobs have ended: 0 all well, 1 not all, 2 no answer",
        "kill": "end jobs, or send them a signal",
        "hold": "keep pending jobs of the queue from starting",
        "release": "let held jobs go on",
        "requeue": "end jobs and begin them again; --failed: of an array, what failed",
        "update": "change the priority, name or time limit of jobs that wait",
    },
    "lbd.cli.ctl.predict": {
        "predict": "when a job that came to the queue now would begin, on each number of slots",
    },
    "lbd.cli.ctl.explain": {"explain": "where a command would run and why; runs nothing"},
    "lbd.cli.ctl.eligible": {
        "eligible": "what is known of commands a shell may send away, or of one",
    },
    "lbd.cli.ctl.steer": {
        "drain": "no new jobs on that host",
        "undrain": "new jobs may go to that host again",
        "reload": "read the owner's rules of this host again, without losing a job",
        "algorithm": "show or change how hosts exchange their load, cluster-wide",
        "param": "show or change a parameter, cluster-wide",
    },
    "lbd.cli.ctl.cluster.leave": {
        "leave": "this host is no part of the cluster any more",
        "forget": "a host that is down is gone for good",
    },
    "lbd.cli.ctl.cluster.queue_place": {
        "queue": "where the queue is; enable or disable it for the whole cluster",
    },
    "lbd.cli.ctl.config": {
        "config": "settings: check the file, show what is in force, set one",
    },
    "lbd.cli.ctl.restart": {
        "restart": "this host's daemons make way for new ones; what runs goes on",
    },
    "lbd.cli.ctl.stats": {
        "stats": "response times, moved jobs and more, of jobs that have ended",
    },
    "lbd.cli.ctl.exports.report": {"report": "the cluster's own picture, as one file of HTML"},
    "lbd.cli.ctl.owners": {"owners": "whose owners are back, and when their hosts are free"},
    "lbd.cli.ctl.advise": {"advise": "what would have been better for those jobs, by simulation"},
    "lbd.cli.ctl.tags": {
        "tags": "cutoffs for the TAGS tiers: solve, fit job sizes, show the queue's",
    },
    "lbd.cli.ctl.trust": {
        "init": "the first host of a cluster: its authority and its own certificate",
        "join": "become a host of the cluster that a token is for",
        "token": "what a new host joins with: create, list, revoke",
        "revoke": "revoke a host's certificates, cluster-wide",
    },
    "lbd.cli.ctl.cluster.authority": {
        "authority": "where the cluster's authority is; give it away, take it here",
    },
    "lbd.cli.ctl.backup": {
        "backup": "authority, ledger and settings of this host, in one file",
        "restore": "put them back, here or on a new host",
    },
    "lbd.cli.ctl.exports.bundle": {
        "bundle": "settings, findings and logs of this host, without secrets, for a helper",
    },
    "lbd.cli.ctl.web": {"web": "login: a link that signs you in to the status page, once"},
    "lbd.cli.json_schemas": {"schema": "the JSON Schema of what --json prints"},
    "lbd.cli.ctl.doctor": {
        "doctor": "check this host and its peers; name each fault and its fix",
    },
}
ELSEWHERE = {  # words of Slurm, PBS, shells and others
    "squeue": "jobs", "tail": "logs", "qstat": "jobs", "ps": "jobs", "ls": "jobs", "list": "jobs",
    "scancel": "kill", "qdel": "kill", "cancel": "kill", "stop": "kill", "rm": "kill",
    "sinfo": "status", "hosts": "status", "nodes": "status", "sacct": "history",
    "scontrol": "job", "show": "job", "sstat": "job", "htop": "top", "log": "logs",
    "resume": "release", "suspend": "hold", "retry": "requeue", "sprio": "jobs",
}  # fmt: skip
COMMANDS = {name: does for verbs in VERBS.values() for name, does in verbs.items()}
EXAMPLES = (
    "lbctl status                            who is up, and how busy",
    "lbctl explain make -j8                  where would it go, and why",
    "lbctl eligible gcc -c x.c               would a shell send it away, and why not",
    "lbctl drain h3 --wait                   empty h3 before its reboot",
    "lbctl algorithm LOWEST                  probe a few hosts instead of broadcasting",
    "lbctl param local_threshold 0.5         send commands away sooner",
    "lbctl stats --since 8h                  how long jobs took, by command, user and host",
    "lbctl tags solve --alpha 1 --mean 3000 --max 1e10 --load 0.5 --hosts 4",
    "lbctl status --json | jq '.hosts[].index'",
)


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    Errors.as_json = "--json" in arguments
    return guard("lbctl", lambda: dispatch(arguments))


def dispatch(argv: list[str]) -> int:
    about = "look at a cluster of lbd hosts and steer it"
    name, words, path = command_line(
        "lbctl", about, COMMANDS, EXAMPLES, argv, ELSEWHERE, takes_json=True
    )
    module = next(module for module, verbs in VERBS.items() if name in verbs)
    offered: dict[str, Verb] = importlib.import_module(module).VERBS
    verb = offered[name]
    options = verb.parser(f"lbctl {name}", COMMANDS[name]).parse_args(words)
    own_path: str | None = getattr(options, "config", None)
    return verb.run(options, own_path or path)


if __name__ == "__main__":
    sys.exit(main())
