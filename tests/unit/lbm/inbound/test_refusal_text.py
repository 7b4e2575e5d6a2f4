"""What the user reads if another host cannot start the command."""

import errno
import os

import pytest

from lbd.config.access import AdmissionConfig
from lbd.config.schema import Config
from lbd.dispatch.core.retry import SHORT_OF, phase_to_go_by
from lbd.lbm.core import execution_events as e
from lbd.lbm.inbound.performer import not_started
from lbd.lbm.inbound.refusal_text import explain
from lbd.lbm.inbound.request import withheld_here
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen import lbm_pb2


def test_a_directory_that_is_not_shared_is_named():
    """Its remedy is given on the host where the command comes from."""
    request = lbm_pb2.RunRequest(origin="h1", directory=b"/x", argv=[b"cc"])
    said = explain(request, SpawnFailed("directory", 0))
    assert said == "the directory /x is not shared with h1"


def test_a_missing_directory_is_named():
    request = lbm_pb2.RunRequest(origin="h1", directory=b"/x", argv=[b"cc"])
    said = explain(request, SpawnFailed("chdir", errno.ENOENT))
    assert said == "/x: No such file or directory"


@pytest.mark.parametrize("number", [errno.EPIPE, errno.ECONNRESET])
def test_a_child_killed_at_birth_is_trouble_there_and_not_for_good(number):
    """It said `spawn: Broken pipe`, and a queued job ended for good."""
    killed = SpawnFailed("spawn", number)
    said = explain(lbm_pb2.RunRequest(argv=[b"cc"]), killed)
    assert said == "its processes are killed as they begin, so no command can start now"
    assert not_started(killed, "keeper") == e.NotStarted(said, "spawn", errno.EAGAIN)
    assert phase_to_go_by("spawn", killed.number, in_gang=False) == SHORT_OF


def test_what_a_command_lacks_is_named_by_its_errno():
    request = lbm_pb2.RunRequest(argv=[b"cc"])
    assert explain(request, SpawnFailed("limits", errno.EPIPE)) == "limits: Broken pipe"
    assert explain(request, SpawnFailed("spawn", 0)) == "spawn: failed"


def test_a_forbidden_program_is_named_with_the_target_of_its_link():
    request = lbm_pb2.RunRequest(origin="h1", argv=[b"cc"])

    def said(*paths):
        return explain(request, SpawnFailed("admission.deny_programs", errno.EACCES, paths))

    end = "(admission.deny_programs); its administrator may change that"
    assert said() == f"cc is not allowed here {end}"
    link = "/usr/bin/cc is a link to /usr/bin/gcc-12"
    assert said("/usr/bin/cc", "/usr/bin/gcc-12") == f"cc is not allowed here: {link} {end}"
    file = "./a.out is /home/ann/a.out"
    assert said("./a.out", "/home/ann/a.out") == f"cc is not allowed here: {file} {end}"
    assert said("/bin/cc", "/bin/cc") == f"cc is not allowed here: cc is /bin/cc {end}"


def test_if_only_some_programs_may_run_they_are_named():
    request = lbm_pb2.RunRequest(origin="h1", argv=[b"uname"])
    paths = ("/usr/bin/uname", "/usr/bin/uname")

    def said(*allowed, phase="admission.programs", paths=paths):
        return explain(request, SpawnFailed(phase, errno.EACCES, paths), allowed)

    end = "(admission.programs); its administrator may change that"
    here = "uname is not allowed here: uname is /usr/bin/uname"
    assert said("/usr/bin/gcc", "make") == f"{here}, and only /usr/bin/gcc, make may run {end}"
    assert said("make", paths=()) == f"uname is not allowed here: only make may run {end}"
    link = "/usr/bin/uname", "/usr/bin/coreutils"
    assert said("/usr/bin/uname", "make", paths=link) == (
        "uname is not allowed here: /usr/bin/uname is a link to /usr/bin/coreutils, which the "
        f"rule would have to name instead {end}"
    )
    many = said(*[f"/opt/{number}" + "/long" * 100 for number in range(60)])
    assert " and 55 more may run" in many
    assert len(many) < 500
    assert "make" not in said("make", phase="admission.deny_programs")


def test_a_keeper_with_other_user_settings_is_reported_as_needing_a_restart():
    request = lbm_pb2.RunRequest(origin="h1", user="ann", argv=[b"cc"])
    said = explain(request, SpawnFailed("user", errno.EPERM))
    assert "systemctl restart lbd-keeper" in said
    assert "[users]" in said


def test_what_the_rules_for_programs_withhold_is_named():
    environment = [b"PYTHONPATH=/x", b"HOME=/home/ann", b"LD_PRELOAD=x.so"]
    request = lbm_pb2.RunRequest(origin="h1", argv=[b"cc"], environment=environment)
    config = Config(admission=AdmissionConfig(deny_programs=("/usr/bin/ffmpeg",)))
    names = "LD_PRELOAD, PYTHONPATH"
    assert (
        withheld_here(request, config)
        == f"variables withheld there (admission.deny_programs): {names}"
    )
    assert withheld_here(request, Config()) == ""


def test_why_a_command_was_not_started_names_no_file_of_the_daemons():
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/lib/lbd/spool/0/37.1.out")
    said = not_started(full, "spawn")
    assert (said.reason, said.number) == ("spawn: No space left on device", errno.ENOSPC)
