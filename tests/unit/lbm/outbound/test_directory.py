"""Whether a working directory must be the same on the host where a command runs."""

import os
import subprocess
import threading
from dataclasses import replace
from types import SimpleNamespace

import pytest

from lbd.errors import Unavailable
from lbd.keeper.local_account import ROOT_REFUSED
from lbd.launch import directory_look
from lbd.launch.directory_stamp import Stamp
from lbd.lbm.link.user_threads import UserThreads
from lbd.lbm.outbound import directory
from lbd.lbm.outbound.directory import Directory, has_our_view
from lbd.lbm.session.request import ClientRequest
from lbd.local import client_tags as tags

HERE = Stamp("kernel", 1, 2, born_ns=3)
NAMED = tags.FLAG_CHDIR + tags.FLAG_ROOTED

ANN, CLIENT = 52001, 1 << 22


class Looker:
    async def at(self, uid, pid, directory, *, is_current):
        return HERE


@pytest.mark.parametrize(
    ("mode", "directory", "flags", "compared"),
    [
        ("host", b"/", b"", False),  # `cd /; lbrun -H h3`
        ("host", b"/", NAMED, False),  # `lbrun -H h3 -C /`
        ("host", b"/usr", NAMED, False),
        ("host", b"/usr", b"", True),
        ("host", b"/usr", tags.FLAG_CHDIR, True),
        ("auto", b"/", b"", True),
        ("auto", b"/", NAMED, True),
    ],
)
async def test_the_directory_is_compared_unless_it_was_named_for_that_host(
    mode, directory, flags, compared
):
    request = ClientRequest(argv=[b"true"], mode=mode, directory=directory, flags=flags)
    peer = SimpleNamespace(pid=1, check=lambda: None)
    made = Directory(Looker(), None, request, 0, peer)
    assert await made.stamp() == (HERE if compared else None)


async def test_of_a_directory_without_a_known_birth_it_is_noted_when_it_was_seen(monkeypatch):
    """It may change until the command starts."""
    monkeypatch.setattr(directory.time, "time_ns", lambda: 5)
    looker = SimpleNamespace(at=no_birth)
    request = ClientRequest(argv=[b"true"], mode="auto", directory=b"/usr")
    peer = SimpleNamespace(pid=1, check=lambda: None)
    made = await Directory(looker, None, request, 0, peer).stamp()
    assert made == replace(HERE, born_ns=0, seen_ns=5)


async def no_birth(uid, pid, directory, *, is_current):
    return replace(HERE, born_ns=0)


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ("the keeper is not connected", "the keeper is not connected: see `lbctl doctor` here"),
        (ROOT_REFUSED, f"this host does not let it leave: {ROOT_REFUSED}"),
        ("Permission denied", "/usr cannot be accessed here: Permission denied"),
    ],
)
async def test_a_missing_keeper_is_not_a_fault_of_the_directory(trouble, said):
    class Fails:
        async def at(self, *_, is_current):
            raise Unavailable(trouble)

    request = ClientRequest(argv=[b"true"], directory=b"/usr")
    made = Directory(Fails(), None, request, 0, SimpleNamespace(pid=1, check=lambda: None))
    with pytest.raises(Unavailable) as problem:
        await made.stamp()
    assert str(problem.value) == said


def test_of_very_many_mounts_only_the_first_are_read(monkeypatch):
    """A user's 460 MB of them held up the LBM for three seconds, again for each command."""
    own = os.getpid()
    assert has_our_view(own)
    for module in (directory, directory_look):
        monkeypatch.setattr(module, "MOUNTS_BYTES", 100)
    assert len(directory_look.mounts(str(own))) == 100
    assert not has_our_view(own)  # so the keeper looks as the user
    monkeypatch.setattr(directory, "MOUNTS_BYTES", 101)
    assert has_our_view(own)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes a mount namespace")
def test_what_a_namespace_of_ones_own_lacks_is_not_kept_for_others(monkeypatch):
    """A user's look from one made everybody's file server a local disk for a minute."""
    monkeypatch.setattr(directory, "file_system", lambda _mount, _device, whose: whose)
    looker = directory.Looker(None, None)
    words = ["unshare", "-m", "sh", "-c", "echo; exec sleep 60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        whose = [str(other.pid), str(os.getpid())]
        for _ in range(2):
            found = [looker._look(b"/", int(pid), cached=True).file_system for pid in whose]
            assert found == whose
        other.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="looks as root at others' processes")
@pytest.mark.parametrize("is_current", [True, False])
async def test_a_client_that_hangs_in_exec_holds_up_nobody_else(is_current, monkeypatch):
    """Some kernels show its working directory and root to nobody, root or not. A process that had
    connected could pass its connection on, and stop the LBM for as long as it liked."""
    loop, let_go = threading.current_thread(), threading.Event()

    def held_up(call):
        def guarded(path, *more, **named):
            if os.fsencode(path).startswith(b"/proc/%d/" % CLIENT):
                assert threading.current_thread() is not loop, "the LBM would have hung"
                let_go.wait()
            return call(path, *more, **named)

        return guarded

    monkeypatch.setattr(directory, "look", held_up(directory.look))
    monkeypatch.setattr(os, "access", held_up(os.access))
    monkeypatch.setattr(directory, "LOOK_S", 0.1)
    looker = directory.Looker(None, UserThreads())
    try:
        with pytest.raises(Unavailable):
            await looker.at(ANN, CLIENT, b"/", is_current=is_current)
    finally:
        let_go.set()
    monkeypatch.setattr(os, "geteuid", lambda: ANN + 1)  # an LBM without privileges
    let_go.clear()
    asked = SimpleNamespace(is_needed=True, look=noted)
    assert await directory.Looker(asked, UserThreads()).at(ANN, CLIENT, b"/", is_current=True) == (
        ANN, b"/proc/%d/cwd" % CLIENT,
    )  # fmt: skip


async def noted(*asked):
    return asked
