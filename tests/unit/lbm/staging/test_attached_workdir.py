"""How a host answers a request for a workdir: in terms of lbm.proto."""

from types import SimpleNamespace

import pytest

from lbd.config.schema import StageConfig
from lbd.keeper.local_account import Admit, Refuse
from lbd.lbm.link import wire as tags
from lbd.lbm.staging.attached_workdir import serve_workdir
from lbd.lbm.staging.workdir_root import WorkdirRoot
from lbd.lbm.staging.workdirs import Workdirs
from lbd.net.gen import lbm_pb2


class Talk:
    def __init__(self):
        self.said = []

    def put(self, tag, body):
        self.said.append((tag, lbm_pb2.Refused.FromString(body)))


class Host:
    """Admits everybody, and has room."""

    def __init__(self, root):
        self.config = SimpleNamespace(stage=StageConfig())
        self.slots = SimpleNamespace(has_room=lambda user, width: True, places=8)
        as_user = SimpleNamespace(acts_for=lambda _: False)
        self.workdirs = Workdirs(
            WorkdirRoot(str(root), "h2", str(root)), SimpleNamespace(running={}), as_user
        )
        self.admitted = Admit(None)

    async def admit(self, _user, _uid, _origin):
        return self.admitted


@pytest.fixture
def host(tmp_path):
    return Host(tmp_path)


def forbid(host):
    host.config.stage = StageConfig(max_bytes=0)


def is_full(host):
    host.slots.has_room = lambda user, width: False


def has_many(host):
    host.slots.places = 0


def is_closed(host):
    host.admitted = Refuse("not now")


def has_no_root(host):
    root = host.workdirs._root.path.parent / "no-directory"
    root.write_text("")
    host.workdirs._root = WorkdirRoot(str(root), "h2", str(root))


@pytest.mark.parametrize(
    ("change", "reason", "phase", "full"),
    [
        (forbid, "stage.max_bytes", "admission", False),
        (is_full, "no free slot", "admission", True),
        (has_many, "too many commands", "admission", False),
        (is_closed, "not now", "admission", False),
        (has_no_root, "stage.root: ", "stage", False),
    ],
)
async def test_a_refusal_says_whether_another_time_or_host_would_do(
    host, change, reason, phase, full
):
    change(host)
    talk, asked = Talk(), lbm_pb2.WorkdirRequest(id="h1-7", origin="h1", user="ann")
    await serve_workdir(host, talk, memoryview(asked.SerializeToString()), "h1", pytest.fail)
    ((tag, said),) = talk.said
    assert tag == tags.REFUSED
    assert reason in said.reason
    assert (said.phase, said.full, said.try_another) == (phase, full, True)


async def test_a_host_that_accepts_no_files_is_not_waited_for(host):
    """The lack of a free slot, too, would be a reason to ask it again."""
    forbid(host)
    is_full(host)
    talk, asked = Talk(), lbm_pb2.WorkdirRequest(id="h1-7", origin="h1", user="ann")
    await serve_workdir(host, talk, memoryview(asked.SerializeToString()), "h1", pytest.fail)
    assert not talk.said[0][1].full


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", "not a WorkdirRequest"),
        (lbm_pb2.WorkdirRequest(id="h3-7", origin="h3").SerializeToString(), "in the name of h3"),
        (lbm_pb2.WorkdirRequest(id="../x", origin="h1").SerializeToString(), "lacks an id of h1's"),
        (lbm_pb2.WorkdirRequest(id="h3-7", origin="h1").SerializeToString(), "lacks an id of h1's"),
    ],
)
async def test_a_request_that_no_host_would_send_is_refused(host, body, reason):
    talk = Talk()
    await serve_workdir(host, talk, memoryview(body), "h1", pytest.fail)
    assert reason in talk.said[0][1].reason
