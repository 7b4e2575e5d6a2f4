"""Which modules read what a process can keep the kernel from showing.

Newer kernels show these files only when no exec of the process is under way, and that lasts as long
as its user likes. An event loop that reads one serves nobody meanwhile.
"""

import ast
import re
from pathlib import Path

import lbd

ROOT = Path(lbd.__file__).parent
OF_A_PROCESS = re.compile(
    r"(?:/proc/(?:\{\}|%d)|\{\})/(stat|cwd|root|exe|environ|maps|syscall|ns)\b"
)
# Each with why nobody waits for it.
READERS = {
    "load/process_table.py": {"stat"},  # task_of, below
    "lbm/session/local_cpu.py": {"stat"},  # of one that has ended
    "lbm/outbound/directory.py": {"cwd", "root", "ns"},  # in a thread of its user's
    "keeper/stdin_watch.py": {"syscall"},  # in a child that is killed when it hangs
    "keeper/output_holders.py": {"maps"},  # the same
    "keeper/limits/cgroups.py": {"environ"},  # the same
    "lab/processes.py": {"environ"},  # by a command of the user's own, as are the next
    "lab/enter.py": {"environ"},
}
CALLERS_OF_TASK_OF = {
    "load/process_table.py",  # life_of and others, on older kernels only; trees, by the next ones
    "keeper/limits/process_reads.py",  # of its own child
    "keeper/limits/time_limits.py",  # in a child that is killed when it hangs
    "process/reading_child.py",  # of its own child
    "lbm/session/local_cpu.py",  # in a thread of its user's, or of one that has ended
    "lbm/queue/keeper_claim.py",  # of our own keeper
    "doctor/this_host.py",  # by a command of the user's own, as are the next
    "cli/ctl/restart.py",
    "experiment/meters.py",
    "lab/processes.py",
}


def paths_in(tree):
    """Returns all texts in the code; what is filled in is {}."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            values = (one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
            yield "".join(map(str, values))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode("latin-1")


def calls_task_of(tree):
    return any(
        isinstance(node, ast.Call)
        and (
            getattr(node.func, "id", "") == "task_of"
            or ast.unparse(node.func).endswith("table.task_of")
        )
        for node in ast.walk(tree)
    )


def sources():
    for path in sorted(ROOT.rglob("*.py")):
        yield path.relative_to(ROOT).as_posix(), ast.parse(path.read_text("utf-8"))


def test_what_waits_for_an_exec_is_read_only_where_nobody_waits():
    found = {name: set(OF_A_PROCESS.findall("\n".join(paths_in(tree)))) for name, tree in sources()}
    assert {name: files for name, files in found.items() if files} == READERS


def test_the_line_of_a_task_is_read_only_where_nobody_waits():
    found = {name for name, tree in sources() if calls_task_of(tree)}
    assert found - {"dispatch/job_view.py"} == CALLERS_OF_TASK_OF  # that one has its own task_of
