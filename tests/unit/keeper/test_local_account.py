"""As whom commands of other hosts run here, and who is refused."""

import pytest

from lbd.config.access import UsersConfig
from lbd.keeper.gate import ACCOUNT, pack_gate, users_of
from lbd.keeper.local_account import (
    CLOSED,
    Admit,
    Asker,
    LocalUser,
    Refuse,
    Standing,
    fault_of_account,
    identify,
    wanted_account,
    why_closed,
)
from lbd.lbm.inbound.refusal_text import explain, phase_of
from lbd.lbm.keeper_link import SpawnFailed
from lbd.net.gen import lbm_pb2

ANN = LocalUser("ann", 1000, 1000, (1000, 27))
ROOT = LocalUser("root", 0)
MAIL = LocalUser("mail", 8, 8)
NOBODY = LocalUser("nobody", 65534, 65534)
GUEST = LocalUser("guest", 2000, 2000)
AS_ROOT, AS_ANN = 0, 1000


@pytest.mark.parametrize(
    ("asker", "local", "users", "expected"),
    [
        (Asker("ann", 1000), ANN, {}, Admit(ANN)),
        (Asker("ann", 2222), ANN, {}, Admit(ANN)),  # by name: numbers differ between hosts
        (Asker("anna", 1000), ANN, {"map": "uid"}, Admit(ANN, "runs as ann")),
        (Asker("bob", 7), GUEST, {"map": "single:guest"}, Admit(GUEST, "runs as guest")),
        (Asker("root", 0), GUEST, {"map": "single:guest"}, Admit(GUEST, "runs as guest")),
        (Asker("bob", 7), GUEST, {"unknown": "guest"}, Admit(GUEST, "runs as guest")),
        (Asker("root", 0), ROOT, {"allow_root": True}, Admit(ROOT)),
        (Asker("mail", 8), MAIL, {"allow": ("m*",)}, Admit(MAIL)),
    ],
)
def test_admitted_as(asker, local, users, expected):
    assert identify(UsersConfig(**users), asker, local, AS_ROOT) == expected


@pytest.mark.parametrize(
    ("asker", "local", "users", "rule"),
    [
        (Asker("bob", 1001), None, {}, "no user 'bob' here"),
        (Asker("bob", 1001), None, {"map": "uid"}, "no user 1001 here"),
        (Asker("root", 0), ROOT, {}, "users.allow_root"),
        (Asker("ann", 0), ANN, {}, "users.allow_root"),  # root there by number
        (Asker("admin", 1000), LocalUser("admin", 0), {}, "users.allow_root"),  # root here
        (Asker("x", 7), ROOT, {"map": "single:root"}, "users.allow_root"),
        (Asker("root", 0), ROOT, {"allow": ("*",)}, "users.allow_root"),
        (Asker("mail", 8), MAIL, {}, "users.min_uid"),
        (Asker("nobody", 65534), NOBODY, {}, "users.min_uid"),
        (Asker("bob", 7), MAIL, {"map": "single:mail"}, "users.min_uid"),
    ],
)
def test_refused(asker, local, users, rule):
    answer = identify(UsersConfig(**users), asker, local, AS_ROOT)
    assert isinstance(answer, Refuse)
    assert rule in answer.reason


@pytest.mark.parametrize(
    ("asker", "local", "admitted"),
    [
        (Asker("ann", 1000), ANN, True),
        (Asker("1000", 1000), None, True),  # in a container without a user database
        (Asker("ann", 1000), None, False),
        (Asker("bob", 1001), LocalUser("bob", 1001), False),
        (Asker("root", 0), ROOT, False),
    ],
)
def test_a_keeper_that_is_not_root_works_only_for_its_own_user(asker, local, admitted):
    answer = identify(UsersConfig(), asker, local, AS_ANN)
    assert answer == Admit(None) if admitted else "1000" in answer.reason


def test_which_names_are_looked_up():
    asker = Asker("ann", 1000)
    found = [wanted_account(UsersConfig(map=by), asker) for by in ("name", "uid", "single:x")]
    assert found == ["ann", 1000, "x"]


@pytest.mark.parametrize("uid", [1000, 60513, 65536, 1_800_000_000])
def test_people_of_any_directory_are_not_system_accounts(uid):
    assert fault_of_account(UsersConfig(), LocalUser("ann", uid)) == ""


HASH = "$y$j9T$abc$def"
SHELL = LocalUser("ann", 1000, 1000, shell="/bin/bash")
GONE = LocalUser("ann", 1000, 1000, shell="/usr/sbin/nologin")


@pytest.mark.parametrize(
    ("local", "standing", "why"),
    [
        (SHELL, Standing(HASH, -1, 20000), ""),
        (SHELL, Standing("!" + HASH, -1, 20000), "locked"),
        (SHELL, Standing("!!" + HASH, -1, 20000), "locked"),
        (SHELL, Standing("!abJnggxhB/yWI", -1, 20000), "locked"),
        (SHELL, Standing("!", -1, 20000), ""),  # no password: logs in by a key
        (SHELL, Standing("!!", -1, 20000), ""),
        (SHELL, Standing("!*", -1, 20000), ""),
        (SHELL, Standing("*", -1, 20000), ""),
        (SHELL, Standing(HASH, 1, 20000), "expired"),
        (SHELL, Standing(HASH, 20000, 20000), "expired"),
        (SHELL, Standing(HASH, 20001, 20000), ""),
        (SHELL, Standing(HASH, no_logins=True), "nologin"),
        (GONE, Standing(HASH), "shell"),
        (LocalUser("ann", 1000, shell="/bin/false"), Standing(HASH), "shell"),
        (LocalUser("root", 0, shell="/bin/bash"), Standing("!" + HASH, 1, 2, no_logins=True), ""),
    ],
)
def test_who_may_not_log_in_runs_nothing(local, standing, why):
    assert why_closed(UsersConfig(), local, standing) == why
    assert why_closed(UsersConfig(allow=("an*",)), local, standing) == ""


@pytest.mark.parametrize("why", CLOSED)
def test_one_line_names_the_account_and_what_would_allow_it(why):
    request = lbm_pb2.RunRequest(user="ann", argv=[b"true"])
    trouble = SpawnFailed(ACCOUNT + why, 1)
    assert phase_of(trouble.phase) == "admission"
    text = explain(request, trouble)
    assert "ann" in text
    assert CLOSED[why] in text
    assert "users.allow" in text


def test_the_users_of_a_keeper_are_read_from_its_command_line():
    users = UsersConfig(allow_root=True, min_uid=500, allow=("builder", "a*"))
    words = [
        "python",
        "-c",
        "from lbd.keeper.loop import main",
        "auto",
        pack_gate(users, 7),
        "::1 1",
        "/var/lib/lbd/spool",
    ]
    line = b"".join(word.encode() + b"\0" for word in words)
    assert users_of(line) == users
    assert users_of(b"python\0-c\0sleep\0") is None
    assert users_of(b"python\0lbd.keeper.loop\0of\0another release\0") is None
    assert users_of(b"lbd.keeper.loop\0") is None
