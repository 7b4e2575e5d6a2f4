"""A host's owner sets how many commands of others it runs: -H does not override that."""

import subprocess
from functools import partial

from tests.live.cluster import PATIENT, Lab

WAITS = ("lbm.named_wait_s=0.3", "lbm.named_limit_s=60")
COUNTED = "mkdir {0}/$$ && ls {0} | wc -l; sleep 0.5; rmdir {0}/$$"


LAB = partial(Lab.up, 2, settings=(*PATIENT, *WAITS, "lbm.slots=4", "admission.slots=1"))


def test_named_commands_wait_for_each_other(lab, tmp_path):
    """All of them run, and never two at once."""
    counter = tmp_path / "counter"
    counter.mkdir()
    script = f"seq 5 | xargs -P5 -I{{}} lbrun -H h2 sh -c '{COUNTED.format(counter)}'"
    result = lab.run("h1", "sh", "-c", script, timeout=90)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == ["1"] * 5


def test_a_command_that_claims_to_be_nested_waits_too(lab):
    """The depth of nested lbruns comes from the user's environment, which may lie."""
    with lab.popen("h1", "lbrun", "-H", "h2", "sleep", "60", stdout=subprocess.PIPE) as process:
        lab.wait_until(lambda: lab.ask("h2", "lbm", "status")["slots"]["used"] == 1, "it runs")
        result = lab.run("h1", "env", "LBD_DEPTH=1", "lbrun", "-H", "h2", "echo", "in")
        used = lab.ask("h2", "lbm", "status")["slots"]["used"]
        process.terminate()
    assert (result.returncode, result.stdout) == (125, "")
    said = "no free slot: at most 1 command runs there (admission.slots)"
    assert result.stderr == f"lbrun: h2: {said}\n"
    assert used == 1
    lab.wait_until(lambda: not lab.jobs_alive(), "it has ended", 20)
