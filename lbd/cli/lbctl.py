"""`lbctl`: shows the cluster and changes it. Data goes to stdout, everything else to stderr.

A command's module is imported only when it is used; the lines for the list of commands are here.
"""

import importlib
import sys
from typing import TYPE_CHECKING

from lbd.cli.complaints import Errors, guard
from lbd.cli.program import command_line

if TYPE_CHECKING:
    from lbd.cli.ctl.verb import Verb

# By the module that defines them in its VERBS.
VERBS = {
    "lbd.cli.ctl.status": {
        "status": "show the cluster and its hosts, one line per host",
    },
    "lbd.cli.ctl.top.program": {"top": "watch hosts, jobs and queue live; press ? for keys"},
    "lbd.cli.ctl.jobs.listing": {
        "jobs": "list running and waiting jobs; --all adds recently ended ones"
    },
    "lbd.cli.ctl.jobs.history": {"history": "list ended jobs, as far as each host shows them here"},
    "lbd.cli.ctl.jobs.verbs": {
        "job": "show one job and all its attempts",
        "logs": "print a queued job's output, or what the daemons did with a job",
        "wait": "wait for jobs to end: 0 all succeeded, 1 some did not, 2 time-out or no such job",
        "kill": "end jobs or send them a signal",
        "hold": "hold pending jobs in the queue",
        "release": "release held jobs",
        "requeue": "run jobs again, also those that are done; --failed: only failed tasks",
        "update": "change the priority, name, time limit or start time of waiting jobs",
    },
    "lbd.cli.ctl.predict": {
        "predict": "predict when a job submitted now would start, for each number of slots",
    },
    "lbd.cli.ctl.explain": {
        "explain": "show where a command would run, and why, without running it"
    },
    "lbd.cli.ctl.eligible": {
        "eligible": "show which commands lbsh may send to other hosts, and why",
    },
    "lbd.cli.ctl.steer": {
        "drain": "stop sending new jobs to a host",
        "undrain": "let a drained host take new jobs again",
        "reload": "reload this host's owner rules without disturbing jobs",
        "algorithm": "show or change the load-exchange algorithm, cluster-wide",
        "param": "show or change a parameter, cluster-wide",
    },
    "lbd.cli.ctl.cluster.leave": {
        "leave": "take this host out of the cluster",
        "forget": "remove a host that will not come back",
    },
    "lbd.cli.ctl.cluster.queue_place": {
        "queue": "show where the queue runs; enable or disable it for the whole cluster",
    },
    "lbd.cli.ctl.config": {
        "config": "check lbd.toml, show the settings in force, change one",
    },
    "lbd.cli.ctl.restart": {
        "restart": "restart this host's daemons without ending running commands",
    },
    "lbd.cli.ctl.stats": {
        "stats": "show response times, moved jobs and more, for ended jobs",
    },
    "lbd.cli.ctl.exports.report": {"report": "write a report on the cluster as one HTML file"},
    "lbd.cli.ctl.owners": {
        "owners": "show whose owners are back, and when their hosts are usually free"
    },
    "lbd.cli.ctl.advise": {"advise": "find better settings by replaying recent jobs in simulation"},
    "lbd.cli.ctl.tags": {
        "tags": "TAGS cutoffs: solve them, fit job sizes, show those in force",
    },
    "lbd.cli.ctl.trust": {
        "init": "create a cluster on its first host: an authority and a certificate",
        "join": "join this host to a cluster, with a token",
        "revoke": "revoke a host's certificates, cluster-wide",
    },
    "lbd.cli.ctl.cluster.tokens": {"token": "create, list and revoke tokens for joining"},
    "lbd.cli.ctl.cluster.authority": {
        "authority": "show where the cluster's authority is; move it to another host",
    },
    "lbd.cli.ctl.backup": {
        "backup": "save this host's authority, ledger and settings in one file",
        "restore": "restore a backup, on this host or a new one",
    },
    "lbd.cli.ctl.exports.bundle": {
        "bundle": "collect this host's settings, findings and logs, without secrets, for support",
    },
    "lbd.cli.ctl.web": {"web": "login: print a one-time link that signs you in to the status page"},
    "lbd.cli.json_schemas": {"schema": "print the JSON Schema of any --json output"},
    "lbd.cli.ctl.doctor": {
        "doctor": "check this host and its peers; report each fault and its fix",
    },
}
ELSEWHERE = {  # names used by Slurm, PBS, shells and others
    "squeue": "jobs", "tail": "logs", "qstat": "jobs", "ps": "jobs", "ls": "jobs", "list": "jobs",
    "scancel": "kill", "qdel": "kill", "cancel": "kill", "stop": "kill", "rm": "kill",
    "sinfo": "status", "hosts": "status", "nodes": "status", "sacct": "history",
    "scontrol": "job", "show": "job", "sstat": "job", "htop": "top", "log": "logs",
    "resume": "release", "suspend": "hold", "retry": "requeue", "sprio": "jobs",
    "submit": "lbrun -d", "qsub": "lbrun -d", "sbatch": "lbrun -d", "run": "lbrun",
    "srun": "lbrun -q",
}  # fmt: skip
COMMANDS = {name: does for verbs in VERBS.values() for name, does in verbs.items()}
EXAMPLES = (
    "lbctl status                            which hosts are up, and how busy",
    "lbctl explain make -j8                  where it would run, and why",
    "lbctl eligible gcc -c x.c               whether a shell would send it away, and why",
    "lbctl drain h3 --wait                   empty h3 before a reboot",
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
    about = "inspect and control a cluster of lbd hosts"
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
