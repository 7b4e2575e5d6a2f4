"""The cluster that the captured screens show: always the same one, at the same moment."""

from lbd.console.reply import Json
from lbd.console.usage_hosts import Gathered
from lbd.doctor.checks import FAULT, OK, WARN, Check
from lbd.lbm.usage.measures import step_of

NOW_S = 1795195805.0  # 2026-11-20 17:30:05 UTC, a Friday
GIB = float(1 << 30)
HOUR_S = 3600.0


def host(
    name: str, load: float, gib: tuple[float, float], slots: tuple[int, int], **more: object
) -> Json:
    total, used = gib
    number = int(name.strip("abcdefghijklmnopqrstuvwxyz-") or 1)
    return {
        "name": name, "address": f"10.0.0.{number}", "state": "up", "index": load,
        "queues": {"cpu": load * 8, "io": load / 20, "memory": 0.0},
        "utilisation": min(1.0, load * 0.93), "cores": 8.0, "speed": 1.0, "age_s": 0.4,
        "memory": {"total": total * GIB, "available": (total - used) * GIB},
        "slots": {"total": slots[1], "used": slots[0]}, "tier": None,
        "jobs": {"local": number % 3, "foreign": slots[0]}, "drained": None, **more,
    }  # fmt: skip


HOSTS = [
    host("atlas-1", 0.12, (31.2, 6.4), (1, 8)),
    host("atlas-2", 0.81, (31.2, 22.9), (7, 8)),
    host("atlas-3", 1.94, (62.7, 58.3), (8, 8), speed=1.35),
    host("bora-4", 0.0, (15.5, 1.8), (0, 4), cores=4.0, speed=0.7),
    host("bora-5", 0.4, (15.5, 3.1), (2, 4), cores=4.0, speed=0.7, state="drained", drained={
        "reason": "replace disk sdb", "by": "ann", "since": NOW_S - 26 * HOUR_S}),
    host("bora-6", 0.33, (15.5, 9.9), (1, 4), cores=4.0, state="late", age_s=14.2),
    host("cirrus-7", 0.0, (0.0, 0.0), (0, 0), state="down", index=None, utilisation=None,
         cores=None, speed=None, age_s=None, memory=None, why_down="no sample for over 30 s",
         queues={"cpu": None, "io": None, "memory": None}, drained={
             "reason": "back from repair: test it first", "by": "root", "since": NOW_S - 900.0}),
]  # fmt: skip
STATUS: Json = {
    "self": "atlas-1",
    "cluster": {
        "name": "physics", "algorithm": "GLOBAL", "centre": "atlas-1", "load_index": "smoothed",
        "dispatcher": {"mode": "fcfs", "leader": "atlas-1", "queued": 4, "running": 3},
    },
    "hosts": HOSTS,
}  # fmt: skip


def with_tiers() -> Json:
    """The same under `tags`, where each host serves some of the tiers."""
    tiers = {"atlas-1": [1], "atlas-2": [1], "atlas-3": [2, 3], "bora-4": [3]}
    cluster = {
        "name": "physics", "algorithm": "GLOBAL", "centre": "atlas-1", "load_index": "smoothed",
        "dispatcher": {"mode": "tags", "leader": "atlas-1", "queued": 4, "running": 3},
    }  # fmt: skip
    hosts = [{**one, "tier": tiers.get(str(one["name"]))} for one in HOSTS[:4]]
    return {**STATUS, "cluster": cluster, "hosts": hosts}


def job(
    number: str, command: list[str], user: str, state: str, on: str, ages_s: tuple[float, float],
    **more: object,
) -> Json:  # fmt: skip
    submitted_s, started_s = ages_s
    return {
        "id": number, "name": "", "command": command, "user": user, "origin": "atlas-1", "host": on,
        "state": state, "attempt": 1, "tier": None, "exit_status": None,
        "submitted": NOW_S - submitted_s, "started": NOW_S - started_s if on else None,
        "finished": None, "cpu_s": started_s * 0.97 if on else None, "slots": 1,
        "array_index": None, "reason": "", **more,
    }  # fmt: skip


JOBS = [
    job("atlas-1-2061", ["cc", "-O2", "-c", "-o", "lexer.o", "lexer.c"], "ann", "running",
        "atlas-2", (1.3, 1.2)),
    job("atlas-1-2062", ["cc", "-O2", "-c", "-o", "parser.o", "parser.c"], "ann", "running",
        "atlas-3", (0.9, 0.8)),
    job("41", ["python3", "fit.py", "--data", "/data/2026/run-41.h5"], "bob", "running", "atlas-3",
        (8100.0, 8040.0), name="fit-41"),
    job("42", ["python3", "fit.py", "--data", "/data/2026/run-42.h5"], "bob", "running", "atlas-2",
        (8100.0, 4000.0), name="fit-42"),
    job("43", ["python3", "fit.py", "--data", "/data/2026/run-43.h5"], "bob", "suspended",
        "bora-5", (8100.0, 700.0), name="fit-43", reason="its owner is back"),
    job("44", ["./simulate", "--steps", "1000000"], "eve", "pending", "", (300.0, 0.0),
        name="nightly", reason="next in line for a free slot"),
    job("45", ["./simulate", "--steps", "2000000"], "eve", "pending", "", (299.0, 0.0),
        name="nightly", reason="1 job is ahead of it"),
    job("48", ["./render", "frame"], "dan", "running", "", (600.0, 590.0), name="film",
        array="1-300", waiting="8-300", tasks={"running": 4, "pending": 293, "done": 3},
        reason=""),
    job("46", ["./render", "scene.blend"], "dan", "pending", "", (120.0, 0.0),
        reason="held by dan"),
    job("47", ["make", "-j8", "check"], "ann", "pending", "", (20.0, 0.0), slots=8,
        reason="8 slots needed on one host; 4 are free on bora-4"),
]  # fmt: skip
MANY_HOSTS: Json = {**STATUS, "hosts": [
    host(f"node-{number}", (number * 37 % 190) / 100, (31.2, 1 + number * 7 % 30),
         (number * 5 % 9, 8))
    for number in range(1, 301)
]}  # fmt: skip


def usage(
    key: str, jobs: int, mean_s: float, sd_s: float, cpu_s: float, short: int = 0
) -> list[object]:
    """`short`: how many of them were too short for their CPU time to be known."""

    def sums(mean: float, sd: float, jobs: int = jobs) -> list[float]:
        return [jobs, jobs * mean, jobs * (mean * mean + sd * sd)]

    return [key, jobs, jobs // 40, jobs // 2, jobs // 90, cpu_s, *sums(mean_s, sd_s),
            *sums(mean_s / 30, sd_s / 25), *sums(1.4, 2.2, jobs - short),
            steps(jobs, mean_s), steps(jobs, mean_s / 30), steps(jobs - short, 1.4),
            jobs * mean_s]  # fmt: skip


def steps(jobs: int, mean: float) -> list[list[int]]:
    """Most of them below the mean, and a tenth far above it."""
    return [[step_of(mean * 0.6), jobs - jobs // 10], [step_of(mean * 4.6), jobs // 10]]


USAGE: Gathered[Json] = Gathered(
    {
        "atlas-1": {
            "user": None, "lost": 0, "trouble": "", "all": usage("", 1688, 9.2, 40.1, 14800.0, 212),
            "by_command": [
                usage("cc", 1520, 0.83, 0.41, 1190.0), usage("python3 fit.py", 104, 118.0, 44.0,
                11900.0), usage("ld", 64, 4.6, 2.1, 288.0)],
            "by_user": [usage("ann", 1584, 1.0, 1.2, 1500.0),
                        usage("bob", 104, 118.0, 44.0, 13300.0)],
            "by_host": [usage("atlas-2", 840, 8.8, 37.0, 7100.0),
                        usage("atlas-3", 588, 11.2, 49.0, 6400.0),
                        usage("atlas-1", 252, 5.0, 9.7, 1300.0)],
        },
    },
    {},
    "GLOBAL",
)  # fmt: skip
OWNERS: list[Json] = [
    {"host": "bora-4", "owner": "away", "since": NOW_S - 2.4 * HOUR_S, "stays": 31,
     "free_within_s": 0.0, "p01": 0.021, "p11": 0.983, "steps": 20000, "step_s": 60.0,
     "rule": "suspend, then move"},
    {"host": "bora-5", "owner": "here", "since": NOW_S - 0.4 * HOUR_S, "stays": 44,
     "free_within_s": 5400.0, "p01": 0.034, "p11": 0.967, "steps": 21000, "step_s": 60.0,
     "rule": "decide by trials"},
    {"host": "atlas-1", "owner": None, "since": None, "stays": 0, "free_within_s": None,
     "p01": None, "p11": None, "steps": 0, "step_s": 60.0, "rule": "keep"},
]  # fmt: skip
PREDICTION: Json = {
    "free": 4, "predicted_wait_s": 0.0, "comparable": 212,
    "how": "slots are free; more than 4: by the run times of 212 ended jobs (2m05s on average)",
    "picks": {"AVG": 4, "PRED": 8, "BIAS": 8, "HEUR": 4},
    "choices": [
        {"slots": slots, "begins_in_s": begins_s, "begins_in_s_90": [begins_s / 3, begins_s * 4],
         "runs_s": 7200 / slots**0.8, "ends_in_s": begins_s + 7200 / slots**0.8}
        for slots, begins_s in ((1, 0.0), (2, 0.0), (4, 0.0), (8, 1340.0))
    ],
}  # fmt: skip
CHECKS = [
    Check("configuration", OK, "/etc/lbd/lbd.toml"),
    Check("certificate", WARN, "ends in 5d13h", "it is renewed by itself while the authority on "
          "atlas-1 is up; if it is not: lbctl join"),
    Check("LIM", OK, "answers on /run/lbd/lim.sock"),
    Check("load", OK, "scope host: this is no container, so the whole machine is counted"),
    Check("LBM", OK, "answers on /run/lbd/lbm.sock"),
    Check("peer cirrus-7", FAULT, "does not answer at all on 10.0.0.7, neither its LIM (7901) nor "
          "its LBM (7902)", "start it, or `lbctl drain cirrus-7 --reason TEXT` until it is back"),
]  # fmt: skip
LAB: Json = {
    "hosts": [
        {"name": f"h{number}", "address": f"127.0.7.{number}",
         "power": "off" if number == 3 else "on",
         "cut_from": ["h1"] if number == 2 else ["h2"] if number == 1 else [],
         "daemons": {
             "lim": {"state": "running", "pid": 4100 + number},
             "lbm": {"state": "stopped" if number == 2 else "running", "pid": 4200 + number},
             "keeper": {"state": "running", "pid": 4300 + number},
             **({"dispatcher": {"state": "running", "pid": 4401}} if number == 1 else {}),
         } if number != 3 else {name: {"state": "dead"} for name in ("lim", "lbm", "keeper")}}
        for number in (1, 2, 3)
    ],
}  # fmt: skip
