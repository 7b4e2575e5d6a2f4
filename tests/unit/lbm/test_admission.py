"""Who may run here, and as whom."""

import pytest

from lbd.lbm.admission import Admit, LocalUser, Refuse, admit

ANN = LocalUser("ann", 1000, 1000, (1000, 27))
ROOT = LocalUser("root", 0)
AS_ROOT, AS_LBD = 0, 990


@pytest.mark.parametrize(
    ("user", "uid", "local", "own_uid", "allow_root", "expected"),
    [
        ("ann", 1000, ANN, AS_ROOT, False, Admit(ANN)),
        ("ann", 2222, ANN, AS_ROOT, False, Admit(ANN)),  # by name: numbers differ between hosts
        ("bob", 1001, None, AS_ROOT, False, Refuse("no user 'bob' here")),
        ("root", 0, ROOT, AS_ROOT, True, Admit(ROOT)),
        ("ann", 1000, ANN, 1000, False, Admit(None)),
    ],
)
def test_admitted_as(user, uid, local, own_uid, allow_root, expected):
    assert admit(user, uid, local, own_uid, allow_root, drained=False) == expected


@pytest.mark.parametrize(
    ("user", "uid", "local"),
    [
        ("root", 0, ROOT),
        ("toor", 0, None),  # root by number
        ("root", 1000, None),  # root by name
        ("admin", 1000, LocalUser("admin", 0)),  # root here, whatever it is there
    ],
)
@pytest.mark.parametrize("own_uid", [AS_ROOT, AS_LBD])
def test_root_by_any_name_needs_leave(user, uid, local, own_uid):
    answer = admit(user, uid, local, own_uid, allow_root=False, drained=False)
    assert isinstance(answer, Refuse)
    assert "users.allow_root" in answer.reason


def test_a_daemon_that_is_not_root_says_whom_it_runs_as():
    answer = admit("ann", 1000, ANN, AS_LBD, allow_root=False, drained=False)
    assert isinstance(answer, Admit)
    assert answer.run_as is None
    assert "990" in answer.note


def test_drained_takes_nobody():
    assert admit("ann", 1000, ANN, AS_ROOT, True, drained=True) == Refuse("drained")
