"""`lbctl schema`: the output of `--json` as JSON Schema. Fields may be added but are never removed
or renamed, so a schema allows more fields than it names."""

import argparse
import json

from lbd.cli.ctl.verb import Verb
from lbd.cli.program import Parser
from lbd.console.errors import SCHEMA
from lbd.console.jobs import HISTORY_STATES, STATES
from lbd.console.reply import Json
from lbd.errors import ConfigError
from lbd.model import HostState
from lbd.text.spelling import hint

DIALECT = "https://json-schema.org/draft/2020-12/schema"
TYPES = {"text": "string", "number": "number", "integer": "integer", "flag": "boolean"}


def some(kind: object) -> Json:
    """Returns a schema for `text`, `number`, `integer` or `flag`, with `?` if it may be null; for a
    list of one of these; or `kind` itself if it is a schema."""
    if isinstance(kind, list):
        return {"type": "array", "items": some(kind[0])}
    if isinstance(kind, dict):
        return kind
    name = str(kind)
    plain = TYPES[name.rstrip("?")]
    return {"type": [plain, "null"] if name.endswith("?") else plain}


def fields(given: "dict[str, object]", optional: "dict[str, object] | None" = None) -> Json:
    """Returns the schema of an object with all fields of `given` and perhaps of `optional`."""
    known = {**given, **(optional or {})}
    return {
        "type": "object",
        "properties": {name: some(kind) for name, kind in known.items()},
        "required": list(given),
    }


def alone(given: "dict[str, object]", optional: "dict[str, object] | None" = None) -> Json:
    """Returns the schema of an object that is printed by itself or as an item of a list."""
    return fields({"schema": {"const": SCHEMA}, **given}, optional)


def table(of: object) -> Json:
    return {"type": "object", "additionalProperties": some(of)}


def one_of(*values: object) -> Json:
    return {"enum": list(values)}


def nullable(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


JOB: dict[str, object] = {
    "id": "text", "name": "text?", "command": ["text"], "user": "text", "origin": "text",
    "host": "text?", "state": one_of(*STATES), "attempt": "integer",
    "tier": "integer?", "exit_status": "integer?", "submitted": "number?", "started": "number?",
    "finished": "number?", "cpu_s": "number?", "slots": "integer",
    "reason": "text?",
}  # fmt: skip
JOB_MORE: dict[str, object] = {
    "priority": "integer", "predicted_wait_s": "number?", "predicted_by": "text?",
    "foretold_wait_s": "number?", "foretold_is_rough": "flag", "ran_s": "number?",
    "signal": "integer?", "cause": "text?", "placed": "text", "pid": "integer?",
    "directory": "text?", "submitted_in": "text?", "fetch": ["text"], "fetched": "flag?",
    "array_index": "integer?", "array_id": "text?",
    "array": "text?", "tasks": nullable(table("integer")), "held": "integer?",
    "held_indexes": "text?", "expected_end": "number?", "expected_by": "text?",
    "takes_turns": "flag?", "output": "text?", "error": "text?",
    "timeout_s": "number?", "memory_bytes": "integer?", "max_rss_bytes": "integer?",
    "idempotency_key": "text?",
    "may_restart": "flag", "begin": "number?", "notify": "text?",
    "needs": nullable(fields({
        "resources": table("integer"), "features": ["text"], "not_features": ["text"],
        "memory_bytes": "integer?",
    })),
}  # fmt: skip
ATTEMPT = fields({
    "number": "integer", "host": "text?", "tier": "integer?", "state": "text", "started": "number?",
    "finished": "number?", "cpu_s": "number?", "exit_status": "integer?", "reason": "text?",
})  # fmt: skip
JOBS = some([alone(JOB, JOB_MORE)])
HISTORY = some([alone({**JOB, "state": one_of(*HISTORY_STATES)}, JOB_MORE)])
ACTED = some([alone({"id": "text?", "ok": "flag", "error": "text?"},
                    {"still_open": "text", "not_held": "flag"})])  # fmt: skip
FIGURES: dict[str, object] = {
    "jobs": "integer", "failed": "integer", "ran_s": "number", "cpu_s": "number",
    "slot_hours": "number",
    "mean_response_s": "number?", "sd_response_s": "number?",
    "mean_waiting_s": "number?", "sd_waiting_s": "number?",
    "mean_slowdown": "number?", "sd_slowdown": "number?", "transferred": "number?",
    "wrong_transfers": "number?", "median_response_s": "number?", "p95_response_s": "number?",
    "median_waiting_s": "number?", "p95_waiting_s": "number?", "median_slowdown": "number?",
    "p95_slowdown": "number?",
}  # fmt: skip
QUEUES: dict[str, object] = {"cpu": "number?", "io": "number?", "memory": "number?"}
DISPATCHER = fields(
    {"mode": "text", "leader": "text?", "queued": "integer", "running": "integer"},
    {"full": "text", "no_room": table("text")},
)
HOST = fields({
    "name": "text", "address": "text", "state": one_of(*(state.value for state in HostState)),
    "index": "number?", "queues": fields(QUEUES), "utilisation": "number?", "cores": "number?",
    "speed": "number?", "age_s": "number?",
    "slots": fields({"total": "integer", "used": "integer"}),
    "tier": nullable(some(["integer"])),
    "jobs": fields({"local": "integer", "foreign": "integer"}), "jobs_known": "flag",
    "revoked": "flag", "site": table("number"),
    "memory": nullable(fields({"total": "integer", "available": "integer",
                               "for_jobs": "integer?", "given": "integer"})),
    "features": ["text"],
    "resources": table(fields({"total": "integer", "used": "integer"})),
    "drained": nullable(fields({"reason": "text", "by": "text", "since": "number?"})),
    "owner": nullable(one_of("here", "away")),
}, {"admission": nullable(some(["text"]))})  # fmt: skip
# On how many hosts a change is in force, and which have not confirmed it; of these, which are down.
CHANGED: dict[str, object] = {"hosts": "integer", "changed": "integer", "missing": ["text"],
                              "down": ["text"]}  # fmt: skip
# For --reset: the saved value that was dropped, or whether a trial was ended.
RESET: dict[str, object] = {"dropped": "text", "trial_ended": "flag"}
STATUS = alone({
    "cluster": fields({"name": "text", "algorithm": "text", "centre": "text?",
                       "dispatcher": nullable(DISPATCHER)}, {"dispatcher_unknown": "text"}),
    "hosts": [HOST],
})  # fmt: skip
CANDIDATE = fields({"name": "text", "load": "number?", "age_s": "number?", "willing": "flag",
                    "why": "text"})  # fmt: skip
CHOICE = fields({
    "slots": "integer", "begins_in_s": "number?", "begins_in_s_90": nullable(some(["number"])),
    "runs_s": "number?", "ends_in_s": "number?",
})  # fmt: skip
CHECK = fields({"name": "text", "state": one_of("ok", "skipped", "warn", "fault"), "says": "text",
                "fix": "text", "mend": "text"})  # fmt: skip
HOUR = fields({"hour": "integer", "p01": "number", "p11": "number", "steps": "integer"})
SCHEMAS: dict[str, Json] = {
    "status": STATUS,
    "jobs": JOBS,
    "job": alone({**JOB, "attempts": [ATTEMPT]}, JOB_MORE),
    "history": HISTORY,
    "wait": JOBS,
    "kill": ACTED,
    "hold": ACTED,
    "release": ACTED,
    "requeue": ACTED,
    "update": ACTED,
    "logs": alone({"id": "text"}, {
        "kept": "flag", "origin": "text", "message": "text",
        "attempt": "integer", "state": "text", "output": "text", "error": "text",
        "lines": [fields({"time": "number", "host": "text", "daemon": "text", "level": "text",
                          "job": "text", "text": "text"})],
        "more": "flag", "missing": table("text"), "withheld": table("text"),
    }),
    "stats": alone({
        "since": "number", "until": "number", "hosts": ["text"], "missing": ["text"], **FIGURES,
        "record_since": table("number?"), "algorithm": "text",
        "algorithm_changes": [fields({"at": "number", "was": "text", "algorithm": "text"})],
        "by_command": [fields({"command": "text", **FIGURES})],
        "by_user": [fields({"user": "text", **FIGURES})],
        "by_host": [fields({"host": "text", **FIGURES})], "not_recorded": "integer",
        "gaps": [fields({
            "host": "text", "commands": "integer", "since": "number?", "until": "number?",
            "not_yet": "flag",
        })],
    }),
    "explain": alone({
        "verdict": one_of("here", "there", "wait"), "host": "text?", "reason": "text",
        "algorithm": "text", "candidates": [CANDIDATE],
    }, {"asked_on": "text", "load_here": "number?", "local_threshold": "number",
        "min_gain": "number", "unknown": "text"}),
    "predict": alone({
        "slots": {"anyOf": [some("integer"), some(["integer"])]}, "free": "integer?",
        "predicted_wait_s": "number?", "how": "text?", "choices": [CHOICE],
        "picks": table("integer"),
    }, {"nobody_takes": "text"}),
    "doctor": alone({"host": "text", "faults": "integer", "warnings": "integer",
                     "checks": [CHECK]}),
    "owners": some([alone({
        "host": "text", "owner": nullable(one_of("here", "away")), "since": "number?",
        "p01": "number", "p11": "number", "step_s": "number", "by_hour": [HOUR],
    }, {"shown_by": "text?"})]),
    "param": alone({}, {"params": table({"type": ["number", "string"]}), "name": "text",
                        "saved": {"type": ["number", "string", "object"]},
                        "value": {"type": ["number", "string"]},
                        "was": {"type": ["number", "string"]}, **RESET, **CHANGED}),
    "algorithm": alone({"algorithm": "text"},
                       {"was": "text", "saved": "text", **RESET, **CHANGED}),
    "drain": alone({"host": "text", "drained": "flag"}, {"jobs_left": "integer?"}),
    "drains": some([fields({
        "host": "text", "reason": "text", "by": "text", "since": "number", "until": "number?",
        "until_by": "text?",
    })]),
    "undrain": alone({"host": "text", "drained": "flag"}),
    "eligible": alone({}, {"threshold_s": "number", "always": ["text"], "never": ["text"],
                           "commands": {"type": "array"}, "command": ["text"],
                           "peak_bytes": "number?"}),
    "backup": alone({"file": "text", "parts": ["text"]}),
    "restore": alone({"file": "text", "parts": ["text"], "held": "integer", "lost": "integer"}),
    "authority": alone({"host": "text?"}, {"address": "text", "file": "text"}),
    "leave": alone({"host": "text", "removed": ["text"]}),
    "forget": alone({"host": "text", "missing": ["text"]}),
    "report": alone({"file": "text", "since": "number", "until": "number", "hosts": ["text"],
                     "missing": ["text"], "jobs": "integer"}),
    "bundle": alone({"file": "text", "parts": ["text"], "left_out": ["text"]}),
    "config-check": alone({"file": "text?", "valid": "flag", "faults": ["text"]}),
    "config-show": some([alone({"name": "text", "from": "text", "value": {}, "default": {}})]),
    "config-set": alone({"name": "text", "value": {}, "in_force": "flag"},
                        {"file": "text", **CHANGED}),
    "tags-solve": alone({"feasible": "flag"}, {
        "k": "number", "cutoffs": ["number"], "mean_slowdown": "number", "loads": ["number"],
        "mean_waiting_s": "number", "mean_response_s": "number", "excess": "number",
        "compare": table(fields({"mean_slowdown": "number", "mean_waiting_s": "number"})),
        "max_load": "number",
    }),
    "error": alone({"error": fields({"kind": "text", "message": "text", "fix": "text?"})}),
}  # fmt: skip


def add_options(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help=f"one of {', '.join(SCHEMAS)}")


def schema(options: argparse.Namespace, _: str | None) -> int:
    name: str | None = options.name
    if name is not None and name not in SCHEMAS:
        raise ConfigError(f"no schema named {name!r}; {hint(name, SCHEMAS)}")
    shown: object = {one: document(one) for one in SCHEMAS} if name is None else document(name)
    print(json.dumps(shown, indent=2))
    return 0


def document(name: str) -> Json:
    by = "any command of lbctl" if name == "error" else f"lbctl {name.replace('-', ' ')}"
    return {"$schema": DIALECT, "title": f"{by} --json", **SCHEMAS[name]}


EXAMPLES = (
    "lbctl schema                 all schemas, by name",
    "lbctl schema jobs            one of them",
)
VERBS = {"schema": Verb(schema, add_options, EXAMPLES)}
