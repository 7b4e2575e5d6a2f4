"""What `lbrun --explain` says of the decision in the answer."""

import errno

import pytest

from lbd.console.decision import show


@pytest.mark.parametrize(
    ("why", "verdict", "says"),
    [
        ("", "there", "goes to h2"),
        ("no free slot", "there", "would wait for a slot on h2"),
        ("drained", "there", "goes to h2"),  # the LIM has said so
        ("no free slot", "here", "runs here, on h2"),
    ],
)
def test_a_full_host_is_waited_for(capsys, why, verdict, says):
    row = {"name": "h2", "load": 1.0, "age_s": 1.0, "willing": not why, "why": why}
    reply = {"verdict": verdict, "host": "h2", "reason": "wanted", "algorithm": "GLOBAL"}
    show({**reply, "candidates": [row]}, {}, ["cc"], as_json=False)
    assert capsys.readouterr().out.startswith(f"cc: {says}: wanted")


def test_a_host_that_was_merely_considered_is_not_called_better(capsys):
    reply = {"verdict": "there", "host": "h2", "reason": "lowest", "algorithm": "GLOBAL"}
    show(reply, {"must_leave": True}, ["cc"], as_json=False)
    assert "goes to h2: lowest (--remote was given; " in capsys.readouterr().out


def test_excluding_this_host_is_named_as_the_reason(capsys):
    reply = {"verdict": "there", "host": "h2", "reason": "lowest", "algorithm": "GLOBAL"}
    request = {"must_leave": False, "excluded": ["h1"]}
    show({**reply, "asked_on": "h1"}, request, ["cc"], as_json=False)
    assert "goes to h2: lowest (-x h1 was given; " in capsys.readouterr().out


def test_it_says_what_the_named_host_did_not(capsys):
    reply = {"verdict": "there", "host": "h2", "reason": "wanted", "algorithm": "GLOBAL"}
    unknown = "h2 did not say whether the command can begin there: no answer within 4 s"
    show({**reply, "unknown": unknown}, {}, ["cc"], as_json=False)
    assert capsys.readouterr().out.splitlines()[1:] == [unknown]


def test_of_a_command_that_never_leaves_no_hosts_are_ranked(capsys):
    row = {"name": "h1", "load": 2.1, "age_s": 1.0, "willing": True, "why": ""}
    reply = {"verdict": "here", "host": "h1", "reason": "never", "algorithm": "GLOBAL"}
    show({**reply, "candidates": [row]}, {}, ["gcc"], as_json=False)
    assert "WILLING" not in capsys.readouterr().out


def test_a_command_is_shown_as_it_could_be_typed(capsys):
    reply = {"verdict": "here", "host": "h1", "reason": "local", "algorithm": "GLOBAL"}
    show(reply, {}, ["sh", "-c", "echo $HOME | tr a b"], as_json=False)
    assert capsys.readouterr().out.startswith("sh -c 'echo $HOME | tr a b': runs here, on h1")


def test_this_host_is_not_willing_where_the_command_is_not_found(capsys):
    here = {"name": "h1", "load": 1.0, "age_s": 1.0, "willing": True, "why": ""}
    rows = [here, {**here, "name": "h2", "willing": False, "why": "nosuch: not found"}]
    reply = {"verdict": "here", "host": "h1", "reason": "local", "algorithm": "GLOBAL"}
    show({**reply, "candidates": rows}, {}, ["nosuch"], as_json=False,
         trouble=OSError(errno.ENOENT, "No such file or directory"))  # fmt: skip
    shown = capsys.readouterr().out.splitlines()
    assert shown[1] == "nosuch: not found; the exit status would be 127"
    rows = [line for line in shown if line.endswith("no: nosuch: not found")]
    assert [row.split()[-7] for row in rows] == ["h1", "h2"]
