"""The shape of the source, checked: an unchecked rule is a wish.

- **Policy decides, daemons do.** Everything is pure except the files named in `SHELLS`: a pure file
  imports no clock, no IO, no event loop, and takes its dice as an argument.
- Imports run one way (`MAY_IMPORT`).
- Files and functions stay short. A long file says in its docstring why it is one. `LONG_FUNCTIONS`
  is a ratchet: an entry may only shrink, and one that is no longer needed must go.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "lbd"
GENERATED = PACKAGE / "rpc/gen"

TOP_LEVEL = {
    "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md",
    "lbd", "proto", "deploy", "tests",
}  # fmt: skip
TOP_LEVEL_LATER = {"docker-compose.yml"}

FILE_LINES = 400
FUNCTION_LINES = 60
LONG_FUNCTIONS: dict[str, int] = {}

# Files and packages that touch the world, beside what they do. Everything else is pure.
SHELLS = (
    *("config_file.py", "whole_file.py"),
    "load/sampler.py",
    "load/procfs.py",  # and the next three: what the kernel says
    "load/cgroup.py",
    "load/scopes.py",
    "load/speed.py",
    "lim/daemon.py",
    "lim/ops.py",  # what its socket answers
    "lim/site_command.py",
    "lim/history_file.py",
    "lbm/daemon.py",
    *("lbm/keeper.py", "lbm/beginnings.py", "lbm/lbm_line.py"),  # forks
    *("lbm/child.py", "lbm/spares.py", "lbm/user_looks.py", "lbm/warden.py"),  # the forks
    "lbm/nursery.py",  # the same by a small program
    *("lbm/signals.py", "lbm/stopping.py"),  # to process groups
    "lbm/monitor.py",  # between the two, where there is a terminal
    "lbm/launch.py",  # what the fork does before exec
    "lbm/containment.py",  # cgroups and process trees
    *("lbm/descriptor.py", "lbm/ferry.py", "lbm/kinds.py", "lbm/user_threads.py"),  # users' I/O
    "lbm/streams.py",  # pipes and passed descriptors
    "lbm/running.py",  # with its usage, as the kernel gives it
    *("lbm/ceilings.py", "lbm/rlimits.py"),  # cgroups and rlimits
    "lbm/start_keeper.py",
    "lbm/treatment.py",  # halts and priorities
    "lbm/owner.py",  # terminals and load of whose host it is
    "lbm/account_cache.py",  # the user database, remembered
    "lbm/accounts.py",  # the user database
    "lbm/as_user.py",  # what the keeper does for us as another
    "lbm/program.py",  # and where the owner has rules for programs
    "lbm/in_force.py",  # the rules of the owner
    "lbm/client.py",  # and of the connection to it
    "lbm/host.py",  # what commands of others share
    "lbm/staying.py",  # a command that does not leave
    "lbm/told.py",  # why one ended
    "lbm/caller.py",  # what the kernel says of a client
    "lbm/look.py",  # what it says of directories
    "lbm/directory.py",  # of clients
    "lbm/outgoing.py",  # what goes along with a command
    "lbm/state_dir.py",
    "lbm/orders.py",  # and what is made of it there
    "lbm/clients.py",  # the Unix socket's server side
    "lbm/link.py",  # to the keeper
    "lbm/eligible.py",  # what was learnt, on disk
    "lbm/origin.py",  # a command on its way out
    "lbm/remote.py",  # a command of ours on another host
    "lbm/room.py",  # commands that wait
    *("lbm/full_hosts.py", "lbm/wide.py"),  # and those that met full hosts
    "lbm/notes.py",  # notices to the LIM
    "lbm/run_request.py",  # what they sent, checked
    "lbm/submitted.py",  # and read but once for all attempts of a submission
    "lbm/incoming.py",  # commands of other hosts' users
    "lbm/conversation.py",  # the stream between two hosts
    "lbm/outbox.py",  # what is to be sent on it
    "lbm/peer_streams.py",  # those we have opened
    "lbm/handover.py",  # what goes to the next LBM, by way of the keeper
    "lbm/letting_go.py",  # and what must not wait for our end
    "lbm/holding.py",  # which holds it
    "lbm/bundle.py",
    "lbm/adoption.py",  # and what that LBM makes of it
    "lbm/adopted_attempt.py",
    "lbm/adopted_client.py",
    "lbm/adopted_command.py",
    "lbm/adopted_job.py",
    "lbm/client_server.py",  # the Unix socket itself
    "lbm/home.py",  # what commands on their way out share
    # commands that bring their files, at both ends
    *("lbm/packing.py", "lbm/fetching.py", "lbm/stages.py", "lbm/stage_worker.py"),
    *("lbm/stage_step.py", "lbm/staging.py", "lbm/stage_store.py", "lbm/queued_files.py"),
    *("lbm/receiving.py", "lbm/attempt_stage.py", "lbm/job_input.py", "lbm/attached.py"),
    "lbm/checks.py",  # whether a command could begin
    "lbm/questions.py",  # of lbctl and of the other hosts
    "lbm/queued.py",  # a command on its way into the queue
    "lbm/queue_client.py",  # to the dispatcher
    "lbm/queue_answers.py",  # of lbctl about it
    "lbm/attempts.py",  # what the dispatcher has us run
    *("lbm/attempt.py", "lbm/without_keeper.py"),
    "lbm/turns.py",
    "lbm/limits.py",  # how long, and how much CPU time
    "lbm/spool.py",  # their output
    "lbm/logs.py",  # for those who ask
    *("lbm/usage_store.py", "lbm/usage_file.py"),  # what has ended, on disk
    "lbm/usage_log.py",  # on its way there
    "lbm/usage_answers.py",  # for those who ask
    "lbm/local_cpu.py",  # what the kernel says of a command that stays
    "lbm/agent.py",
    "lbm/ends.py",  # a job's pipes
    "lbm/readers.py",  # who waits for input, by /proc
    "lbm/terminal.py",
    "dispatch/daemon.py",
    "dispatch/desk.py",  # what it is asked
    "dispatch/lines.py",  # to the hosts
    *("dispatch/intake.py", "dispatch/teller.py", "dispatch/told.py"),  # jobs as messages
    "dispatch/tuner.py",  # when to look at the past, and what to tell of it
    "dispatch/ledger/",
    "trust/files.py",  # keys and certificates on disk
    "trust/certificates.py",  # what they are made with is made of dice and clocks
    "trust/authority.py",  # and who has one
    "rpc/",
    "testing/",
    "lab/",
    "experiment/users.py",  # inside a host
    "experiment/workbench.py",  # files, and what commands cost
    "experiment/store.py",  # results on disk
    "experiment/meters.py",  # what the kernel counts
    "experiment/bench_lab.py",
    "experiment/run.py",
    "cli/",
)
# Plain text and bytes although they lie in a shell's package; pure files may import them.
PURE_WIRE = {"lbd.rpc.frames", "lbd.rpc.client_tags"}
IMPURE = {
    "asyncio", "datetime", "fcntl", "google", "grpc", "logging", "multiprocessing", "os", "pathlib",
    "psutil", "resource", "select", "selectors", "shutil", "socket", "sqlite3", "ssl",
    "subprocess", "tempfile", "threading", "time", "uvloop",
}  # fmt: skip
IMPURE_CALLS = {"open", "print", "input"}

CONFIG = {
    "lbd.config", "lbd.config_access", "lbd.config_dispatch", "lbd.config_field",
    "lbd.config_stats", "lbd.config_tls",
}  # fmt: skip
WORDS = CONFIG | {
    "lbd", "lbd.model", "lbd.errors", "lbd.spelling", "lbd.units", "lbd.one_line", "lbd.windows",
    "lbd.wire", "lbd.rates", "lbd.budget", "lbd.ranges", "lbd.jobs_named", "lbd.host_name",
}  # fmt: skip
PROGRAM = {"lbd.self_start", "lbd.supervise"}
RUNNING = {"lbd.load", "lbd.lim", "lbd.lbm", "lbd.dispatch", "lbd.rpc"}
PURE_LOWER = WORDS | {"lbd.load.index", "lbd.theory", "lbd.policy"}
TRUST_WORDS = ("tls", "trusted", "trust_service", "signer", "upkeep", "joining")
TRUSTING = [f"lbd.rpc.{word}" for word in TRUST_WORDS]
# What a module may import beside its own package, by longest prefix; a shell `SHELL_EXTRA`, too.
MAY_IMPORT = {
    "lbd": WORDS,
    "lbd.theory": WORDS,
    "lbd.load": WORDS,
    "lbd.policy": WORDS | {"lbd.load.index", "lbd.theory"},
    "lbd.lim": PURE_LOWER,
    "lbd.lbm": PURE_LOWER | PURE_WIRE,
    "lbd.dispatch": PURE_LOWER,
    "lbd.sim": PURE_LOWER | {"lbd.lim", "lbd.lbm", "lbd.dispatch"},
    "lbd.trust": WORDS,
    "lbd.rpc": WORDS,
    **dict.fromkeys(TRUSTING, WORDS | {"lbd.rpc", "lbd.trust"}),
    "lbd.rpc.convert": WORDS | {"lbd.rpc", "lbd.lim.messages"},
    "lbd.rpc.lim_network": WORDS | {"lbd.rpc", "lbd.lim.messages"},
    "lbd.supervise": WORDS,
    "lbd.lab": WORDS | {"lbd.rpc", "lbd.trust", "lbd.config_file", "lbd.self_start"},
    "lbd.experiment": WORDS | {"lbd.sim.intervals", "lbd.sim.scripts", "lbd.lab", "lbd.rpc"},
    "lbd.testing": PURE_LOWER | RUNNING | {"lbd.sim"},
    "lbd.cli": PURE_LOWER
    | RUNNING
    | {"lbd.config_file", "lbd.lab", "lbd.sim", "lbd.trust", "lbd.experiment"}
    | PROGRAM,
}
SHELL_EXTRA = {"lbd.rpc", "lbd.load", "lbd.whole_file"}

# What `lbrun` must not pay for at start-up (milliseconds each; see its docstring).
HEAVY = {
    "argparse", "asyncio", "collections", "contextlib", "dataclasses", "difflib", "enum", "grpc",
    "google", "inspect", "json", "logging", "pathlib", "psutil", "re", "selectors", "socket",
    "subprocess", "threading", "tomllib", "typing", "uvloop",
}  # fmt: skip

# Programs, and what a program imports by name when it is asked for.
ENTRY_POINTS = (
    "main", "lbctl", "lim", "lbm", "keeper", "authority", "dispatcher", "up", "lab", "lbrun",
    "lbsh", "sim", "experiment_plot",
)  # fmt: skip
STARTED_BY_PATH = {"lbd.lab.enter", "lbd.experiment.users", "lbd.lbm.keeper"}


def sources(*under: Path) -> list[Path]:
    found = [p for folder in under for p in sorted(folder.rglob("*.py"))]
    return [p for p in found if GENERATED not in p.parents and "__pycache__" not in p.parts]


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_name(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def is_shell(path: Path) -> bool:
    inside = str(path.relative_to(PACKAGE))
    if module_name(path) in PURE_WIRE:
        return False
    return any(inside == s or (s.endswith("/") and inside.startswith(s)) for s in SHELLS)


def for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def statements(node: ast.AST, types_too: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if types_too or not for_types_only(child):
            yield child
            yield from statements(child, types_too)


def imports(path: Path, types_too: bool = True) -> set[str]:
    """Modules a file imports; `from lbd.rpc import frames` counts as lbd.rpc.frames."""
    found = set()
    for node in statements(tree(path), types_too):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if is_module(name) else node.module)
    return found


def is_module(name: str) -> bool:
    path = ROOT.joinpath(*name.split("."))
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def within(name: str, prefixes: set[str]) -> bool:
    """`lbd` itself stands for the package root only, never for everything under it."""
    return any(name == p or (p != "lbd" and name.startswith(p + ".")) for p in prefixes)


PURE_FILES = [p for p in sources(PACKAGE) if not is_shell(p)]


@pytest.mark.parametrize("path", PURE_FILES, ids=shown)
def test_pure_files_touch_nothing(path):
    touched = {m for m in imports(path, types_too=False) if m.split(".")[0] in IMPURE}
    assert not touched, f"{shown(path)} decides, so it must not import {touched}"
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in IMPURE_CALLS, f"{shown(path)}:{node.lineno} does IO"
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            fetched = node.value.id == "random" and node.attr != "Random"
            assert not fetched, f"{shown(path)}:{node.lineno} throws its own dice; take rng"
            # signal.SIGTERM is a number; signal.signal() is an effect.
            acts = node.value.id == "signal" and node.attr.islower()
            assert not acts, f"{shown(path)}:{node.lineno} handles signals"


@pytest.mark.parametrize("path", sources(PACKAGE), ids=shown)
def test_imports_run_one_way(path):
    module = module_name(path)
    packages = [p for p in MAY_IMPORT if module == p or module.startswith(p + ".")]
    package = max(packages, key=len)
    allowed = MAY_IMPORT[package] | {package}
    if is_shell(path):
        allowed = allowed | SHELL_EXTRA
    ours = {m for m in imports(path) if m.split(".")[0] == "lbd"}
    wrong = {m for m in ours if not within(m, allowed)}
    assert not wrong, f"{shown(path)} must not import {wrong}; see docs of MAY_IMPORT"


def test_only_tests_import_testing_and_nobody_imports_cli():
    for path in sources(PACKAGE):
        if path.parent.name not in ("testing", "cli"):
            assert not {m for m in imports(path) if m.startswith(("lbd.testing", "lbd.cli"))}


def test_imports_are_absolute():
    for path in sources(PACKAGE, ROOT / "tests"):
        for node in ast.walk(tree(path)):
            assert not (isinstance(node, ast.ImportFrom) and node.level), shown(path)


def test_files_are_short_or_say_why():
    for path in sources(PACKAGE, ROOT / "tests", ROOT / "deploy"):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES:
            reason = ast.get_docstring(tree(path)) or ""
            assert "one file because" in reason, f"{shown(path)}: {lines} lines and no reason"


def functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, (child.end_lineno or 0) - child.lineno + 1
            yield from functions(child, f"{name}.")
        else:
            yield from functions(child, prefix)


def test_functions_are_short():
    over = {
        name: lines
        for path in sources(PACKAGE, ROOT / "tests", ROOT / "deploy")
        for name, lines in functions(tree(path), f"{shown(path)}:")
        if lines > FUNCTION_LINES
    }
    assert_ratchet(over, LONG_FUNCTIONS, "LONG_FUNCTIONS")


def assert_ratchet(found: dict[str, int], allowed: dict[str, int], name: str) -> None:
    for where, lines in found.items():
        assert where in allowed, f"{where} has {lines} lines: cut it"
        assert lines <= allowed[where], f"{where} grew from {allowed[where]} to {lines} lines"
        assert lines == allowed[where], f"{where} shrank: set {name} to {lines}"
    stale = allowed.keys() - found.keys()
    assert not stale, f"take {stale} out of {name}: short enough now"


def test_no_file_without_a_noun():
    banned = {"utils", "util", "helpers", "helper", "common", "misc", "base"}
    named = [shown(p) for p in sources(PACKAGE, ROOT / "tests") if banned & {p.stem, p.parent.name}]
    assert not named


def test_packages_open_with_an_empty_init():
    for folder in {p.parent for p in sources(PACKAGE)}:
        assert (folder / "__init__.py").exists(), f"{shown(folder)} has no __init__.py"
        if folder != PACKAGE:
            assert not (folder / "__init__.py").read_text(), f"{shown(folder)}/__init__.py"


def test_no_unfinished_business():
    for path in sources(PACKAGE, ROOT / "tests"):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for word in ("TO" + "DO", "FIX" + "ME", "XX" + "X"):
                assert word not in line, f"{shown(path)}:{number}"


def test_top_level_is_as_agreed():
    listing = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in listing.stdout.splitlines()}
    visible = {name for name in top if not name.startswith(".")}
    assert visible - TOP_LEVEL_LATER == TOP_LEVEL


def test_every_module_is_used():
    used = {m for path in sources(PACKAGE) for m in imports(path)}
    for path in sources(PACKAGE):
        name = module_name(path)
        entry = path.parent.name == "cli" and path.stem.startswith(ENTRY_POINTS)
        if path.stem == "__init__" or entry or path.parent.name == "testing":
            continue
        if name in STARTED_BY_PATH:
            continue
        assert name in used, f"nobody imports {name}"


@pytest.mark.parametrize("client", ["lbrun", "lbsh"])
def test_clients_start_light(client):
    """Every import costs milliseconds that each command run through it would pay."""
    program = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]);"
        f"import lbd.cli.{client}; print(*(set(sys.modules) - before))"
    )
    command = [sys.executable, "-I", "-S", "-c", program, str(ROOT)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in result.stdout.split()}
    assert not loaded & HEAVY
