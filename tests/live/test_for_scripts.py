"""What scripts rely on: every exit status in the table of the docs, and the form of JSON."""

import contextlib
import json
import os
import re
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.live.cluster import Lab
from tests.live.contract import assert_one_line, shell_status

DOCS = Path(__file__).parents[2] / "docs/reference"


LAB = partial(Lab.up, 2, "none", "--mode", "fcfs")


def status_of(lab, *words, **options):
    return shell_status(lab.run("h1", *words, **options).returncode)


def of_jobs(lab, *scripts):
    """What `lbctl wait` returns for jobs with these scripts."""
    jobs = [lab.run("h1", "lbrun", "-d", "sh", "-c", script, check=True).stdout.strip()
            for script in scripts]  # fmt: skip
    return status_of(lab, "lbctl", "wait", *jobs)


def interrupted(lab):
    job = lab.run("h1", "lbrun", "-d", "sleep", "60", check=True).stdout.strip()
    waiting = lab.popen("h1", "lbctl", "logs", "-f", job, stderr=subprocess.PIPE)
    lab.wait_until(lambda: lab.lbctl_json("h1", "job", job)["state"] == "running", "the job runs")
    with waiting:
        waiting.send_signal(signal.SIGINT)
        status = waiting.wait(timeout=90)
    lab.run("h1", "lbctl", "kill", job, check=True)
    return status


def killed_in_the_queue(lab):
    """It answers TERM by exiting with 0."""
    script = "trap 'exit 0' TERM; echo ready; while :; do sleep 0.1; done"
    waiting = lab.popen("h1", "lbrun", "-q", "sh", "-c", script, stdout=subprocess.PIPE, text=True)
    with waiting:
        assert waiting.stdout.readline() == "ready\n"
        lab.run("h1", "lbctl", "kill", "last", check=True)
        return waiting.wait(timeout=90)


def unread(lab):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        return status_of(lab, "lbctl", "status", stdout=writer, stderr=subprocess.PIPE)
    finally:
        os.close(writer)


CASES = {
    ("lbrun", "0–255"): [(7, ("lbrun", "-H", "h2", "sh", "-c", "exit 7")),
                         (7, ("lbrun", "--local", "sh", "-c", "exit 7"))],
    ("lbrun", "128 + N"): [(143, ("lbrun", "-H", "h2", "sh", "-c", "kill $$"))],
    ("lbrun", "124"): [(124, ("lbrun", "-H", "h2", "--timeout", "0.1", "sleep", "9")),
                       (124, ("lbrun", "--local", "--timeout", "0.1", "sleep", "9"))],
    ("lbrun", "125"): [(125, ("lbrun", "--no-such-option", "true")),
                       (125, ("lbrun", "-H", "h9", "true")), (125, ("lbrun",))],
    ("lbrun -q", "125"): [(125, killed_in_the_queue)],
    ("lbrun", "126"): [(126, ("lbrun", "-H", "h2", "/")), (126, ("lbrun", "--local", "/"))],
    ("lbrun", "127"): [(127, ("lbrun", "-H", "h2", "no-such")), (127, ("lbrun", "no-such"))],
    ("lbctl wait", "0"): [(0, lambda lab: of_jobs(lab, "true", "exit 0"))],
    ("lbctl wait", "1"): [(1, lambda lab: of_jobs(lab, "true", "exit 3"))],
    ("lbctl wait", "2"): [(2, ("lbctl", "wait", "98765")), (2, ("lbctl", "wait", "h1-98765"))],
    ("lbctl tags solve", "1"): [(1, ("lbctl", "tags", "solve", "--alpha", "1", "--mean", "3000",
                                     "--max", "1e10", "--load", "0.99", "--hosts", "2",
                                     "--objective", "slowdown"))],
    ("lbctl, lbd", "0"): [(0, ("lbctl", "jobs", "--name", "no-such")), (0, ("lbctl", "status"))],
    ("lbctl, lbd", "1"): [(1, ("lbctl", verb, job)) for verb in ("job", "logs", "kill")
                          for job in ("98765", "h1-98765", "h9-1")]
                         + [(1, ("lbctl", "jobs", "h1-98765"))],
    ("lbctl, lbd", "2"): [(2, ("lbctl", "no-such")), (2, ("lbctl", "jobs", "--no-such")),
                          (2, ("lbctl", "kill")), (2, ("lbctl", "job", "x")),
                          (2, ("lbctl", "drain", "h9")), (2, ("lbd", "no-such")),
                          (2, ("lbctl", "--config", "/no/such", "status"))],
    ("lbctl, lbd", "130"): [(130, interrupted)],
    ("lbctl, lbd", "141"): [(141, unread)],
}  # fmt: skip
# test_queue*.py, test_never_ran.py, test_stats.py, test_doctor.py, test_contract_bad_input.py
ELSEWHERE = {
    ("a queued job", "85"), ("lbctl stats, history, jobs", "1"), ("lbctl doctor", "1"),
    ("lbctl queue", "1"), ("lbctl logs", "1"), ("lbd lim, lbm, dispatcher", "4"),
}  # fmt: skip


def test_every_row_of_the_table_is_tested():
    rows = re.findall(
        r"(?m)^\| `?([^`|]+?)`? \| ([^|]+?) \|", (DOCS / "exit-statuses.md").read_text()
    )
    assert set(rows[2:]) == CASES.keys() | ELSEWHERE


@pytest.mark.parametrize("row", CASES, ids=["-".join(row).replace(" ", "") for row in CASES])
def test_exit_statuses(lab, row):
    for status, what in CASES[row]:
        found = what(lab) if callable(what) else status_of(lab, *what)
        assert found == status, what


def faults(value, schema, where="it"):
    """Where a value breaks its JSON Schema, for the part of that language which lbctl uses."""
    if "const" in schema and value != schema["const"]:
        yield f"{where} is {value!r}, not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where} is {value!r}, none of {schema['enum']}"
    if "anyOf" in schema and all(list(faults(value, one)) for one in schema["anyOf"]):
        yield f"{where} is {value!r}, none of {schema['anyOf']}"
    types = {"string": str, "number": (int, float), "integer": int, "boolean": bool,
             "null": type(None), "array": list, "object": dict}  # fmt: skip
    if kinds := schema.get("type"):
        kinds = kinds if isinstance(kinds, list) else [kinds]
        fits = [isinstance(value, types[kind]) and isinstance(value, bool) <= (kind == "boolean")
                for kind in kinds]  # fmt: skip
        if not any(fits):
            yield f"{where} is {value!r}, no {kinds}"
            return
    if isinstance(value, list):
        for at, item in enumerate(value):
            yield from faults(item, schema.get("items", {}), f"{where}[{at}]")
    if isinstance(value, dict):
        yield from (
            f"{where} has no {key}" for key in schema.get("required", ()) if key not in value
        )
        for key, item in value.items():
            other = schema.get("additionalProperties", {})
            yield from faults(item, schema.get("properties", {}).get(key, other), f"{where}.{key}")


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, {"type": "string"}), (True, {"type": "number"}), ({}, {"required": ["x"]}),
        ([1, None], {"items": {"type": "integer"}}), (2, {"const": 1}), ("c", {"enum": ["a"]}),
        ({"x": {"y": "1"}}, {"properties": {"x": {"properties": {"y": {"type": "number"}}}}}),
        ({"x": "1"}, {"additionalProperties": {"type": "number"}}),
        ("1", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
    ],
)  # fmt: skip
def test_a_value_that_breaks_its_schema_is_found(value, schema):
    assert list(faults(value, schema))


OBJECTS = [
    ("status",), ("jobs", "--all"), ("history",), ("stats",), ("explain", "true"),
    ("predict", "-n", "1"), ("doctor",), ("owners",), ("param",), ("param", "min_gain"),
    ("algorithm",), ("drain", "h2"), ("undrain", "h2"), ("eligible",), ("kill", "--name", "none"),
    ("tags", "solve", "--alpha", "1", "--mean", "3000", "--max", "1e10", "--load", "0.5",
     "--hosts", "2"),
]  # fmt: skip


@pytest.fixture(scope="module")
def schemas(lab):
    lab.run("h1", "lbrun", "-H", "h2", "true", check=True)  # so that lists are not empty
    return json.loads(lab.run("h1", "lbctl", "schema", check=True).stdout)


@pytest.mark.parametrize("words", OBJECTS, ids=lambda words: " ".join(words[:2]))
def test_json_follows_its_schema(lab, schemas, words):
    verb, *rest = words
    flag = ("--json",) if verb == "explain" else ()
    result = lab.run("h1", "lbctl", verb, *flag, *rest, *(() if flag else ("--json",)))
    name = "tags-solve" if verb == "tags" else verb
    assert not list(faults(json.loads(result.stdout), schemas[name]))
    one = json.loads(lab.run("h1", "lbctl", "schema", name, check=True).stdout)
    assert one == schemas[name]


def test_json_of_jobs_follows_its_schema(lab, schemas):
    lab.wait_until(lambda: lab.states("h1")["h2"] == "up", "h2 is up, and not drained any more")
    queued = lab.run("h1", "lbrun", "-d", "true", check=True).stdout.strip()
    assert lab.run("h1", "lbctl", "wait", queued).returncode == 0
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            lab.popen("h1", "lbrun", "-H", "h2", "--name", "shown", "sleep", "60")
        )
        stack.callback(process.kill)
        plain = lab.wait_until(
            lambda: next(job["id"] for job in lab.lbctl_json("h1", "jobs") if job["name"] == "shown"
                         and job["started"]), "it runs")  # fmt: skip
        held = lab.run("h1", "lbrun", "-d", "-H", "h2", "-n", "999", "true", check=True).stdout
        verbs = [("job", queued), ("job", plain), ("logs", plain), ("hold", held.strip()),
                 ("hold", plain), ("release", held.strip()), ("kill", held.strip(), plain),
                 ("wait", queued, plain)]  # fmt: skip
        for verb, *ids in verbs:
            result = lab.run("h1", "lbctl", verb, *ids, "--json")
            assert not list(faults(json.loads(result.stdout), schemas[verb])), (verb, ids)


@pytest.mark.parametrize(
    ("words", "kind", "part"),
    [
        (("job", "h1-98765"), "missing", "h1-98765"),
        (("job", "98765"), "missing", "98765"),
        (("wait", "98765"), "missing", "98765"),
        (("wait", "h1-98765"), "missing", "98765"),
        (("jobs", "--sate", "x"), "usage", "--state"),
        (("param", "min_gian"), "usage", "min_gain"),
        (("nonsense",), "usage", "nonsense"),
        (("kill",), "usage", "ID"),
    ],
)
def test_an_error_is_an_object_on_standard_error(lab, schemas, words, kind, part):
    result = lab.run("h1", "lbctl", *words, "--json")
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    error = json.loads(result.stderr)
    assert not list(faults(error, schemas["error"]))
    assert error["error"]["kind"] == kind
    assert part in error["error"]["message"] + (error["error"]["fix"] or "")


@pytest.mark.parametrize("words", [("status",), ("jobs",), ("history",), ("stats",)])
def test_reading_verbs_need_no_valid_configuration(lab, tmp_path, words):
    path = tmp_path / "lbd.toml"
    path.write_text(lab.paths("h1").config.read_text() + "\n[lin]\nx = 1\n")
    result = lab.run("h1", "lbctl", "--config", str(path), *words, "--json", check=True)
    json.loads(result.stdout)
    assert_one_line(result.stderr, "lbctl", "unknown section", 'did you mean "lim"?')
    result = lab.run("h1", "lbctl", "--config", str(path), "drain", "h2")
    assert result.returncode == 2


# Odd surroundings, with each front

FRONTS = pytest.mark.parametrize("front", ["lbrun", "lbrun-python"])
WAYS = pytest.mark.parametrize("way", ["", "--remote", "-q"])


@FRONTS
@pytest.mark.parametrize("way", ["-q", "-d"])
def test_nothing_is_queued_from_a_directory_that_was_removed(lab, front, way, tmp_path):
    script = f'mkdir gone && cd gone && rmdir ../gone && exec "$0" {way} "$@"'
    ended = lab.run("h1", "sh", "-c", script, front, "true", cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (125, "")
    said = "the working directory has been removed; go to another one, or use -C DIR"
    assert ended.stderr == f"lbrun: {said}\n"
    ended = lab.run("h1", "sh", "-c", script, front, "-C", "/", "true", cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


@FRONTS
def test_a_status_file_in_a_directory_that_was_removed_is_refused_in_one_line(lab, front, tmp_path):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" --status-file s true'
    ended = lab.run("h1", "sh", "-c", script, front, cwd=tmp_path)
    assert (ended.returncode, ended.stdout) == (125, "")
    assert_one_line(ended.stderr, "lbrun", "--status-file s", "has been removed")


@FRONTS
@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-", "<&- >&- 2>&-"])
def test_the_queue_works_with_closed_descriptors(lab, front, closed, tmp_path):
    """The socket once got the number of standard output, and the job's output went to the LBM."""
    job = 'lbrun=$0; "$lbrun" -q sh -c "cat; echo out; echo did >did" '
    ended = lab.run("h1", "sh", "-c", job + closed, front, cwd=tmp_path)
    assert ended.returncode == 0
    assert ended.stdout == ("" if ">&-" in closed.replace("2>&-", "") else "out\n")
    assert ended.stderr == ""
    (tmp_path / "did").unlink()
    ended = lab.run("h1", "sh", "-c", job.replace("-q", "-d") + closed, front, cwd=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    lab.wait_until((tmp_path / "did").exists, "it has run")


@FRONTS
@WAYS
def test_a_hundred_thousand_arguments_and_an_environment_of_megabytes(lab, front, way):
    words = (front, *way.split(), "sh", "-c", 'echo "$#" "${#LARGE_9}"', "-")
    most = 19_000 if way == "-q" else 100_000  # a queued job has 20,000 with its variables
    ended = lab.run("h1", *words, *["x"] * most)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"{most} 0\n", "")
    large = {f"LARGE_{n}": "x" * (120 << 10) for n in range(15)}
    ended = lab.run("h1", *words, env=large)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"0 {120 << 10}\n", "")


@FRONTS
@WAYS
def test_in_the_environment_of_cron(lab, front, way):
    """Cron gives hardly a variable, no terminal, and another directory."""
    config = lab.environment("h1")["LBD_CONFIG"]
    found = lab.run("h1", "sh", "-c", f"command -v {front}", check=True).stdout.strip()
    clean = ("env", "-i", f"LBD_CONFIG={config}", "HOME=/", "SHELL=/bin/sh", "PATH=/usr/bin:/bin")
    ended = lab.run("h1", *clean, found, *way.split(), "sh", "-c", "echo $HOME", cwd="/")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "/\n", "")
