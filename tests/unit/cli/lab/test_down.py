"""`lbd lab down` asks before it ends what runs, but only a person at a terminal."""

import io
import sys
from types import SimpleNamespace

import pytest

from lbd.cli import main
from lbd.cli.lab import program
from lbd.errors import LbdError
from lbd.lab import removal


@pytest.fixture
def at_terminal(monkeypatch):
    """at_terminal(WORK, TYPED) makes that the lab's work, and returns the labs taken down."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    def prepare(work, typed):
        gone = []
        monkeypatch.setattr(program, "at_work", lambda root: work)
        monkeypatch.setattr(removal, "down", lambda root: gone.append(root) or True)
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        monkeypatch.setattr(sys, "stderr", Terminal())
        return gone

    return prepare


@pytest.mark.parametrize(
    ("work", "typed", "options", "is_removed"),
    [
        ((1, 2), "y\n", [], True),
        ((1, 0), "n\n", [], False),
        ((0, 1), "", [], False),
        ((0, 0), "", [], True),
        ((1, 2), "", ["--yes"], True),
    ],
)
def test_a_person_is_asked(at_terminal, tmp_path, work, typed, options, is_removed):
    gone = at_terminal(work, typed)
    status = main.main(["lab", "down", "--dir", str(tmp_path), *options])
    assert gone == [tmp_path] * is_removed
    assert status == (0 if is_removed else 1)


@pytest.mark.parametrize(
    ("work", "question"),
    [
        ((1, 2), "1 command runs and 2 jobs wait in this lab: end them and remove the lab?"),
        ((1, 0), "1 command runs in this lab: end it and remove the lab?"),
    ],
)
def test_the_question_says_what_would_end(at_terminal, tmp_path, work, question):
    at_terminal(work, "n\n")
    main.main(["lab", "down", "--dir", str(tmp_path)])
    assert sys.stderr.getvalue() == f"lbd lab: {question} [y/n] "


def test_a_script_is_not_asked(at_terminal, tmp_path, monkeypatch):
    gone = at_terminal((1, 2), "")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main.main(["lab", "down", "--dir", str(tmp_path)]) == 0
    assert gone == [tmp_path]


@pytest.mark.parametrize(("answers", "waiting"), [([3], 3), ([None, 2], 2), ([None, None], 0)])
def test_how_many_wait_is_asked_of_the_dispatcher_itself(monkeypatch, tmp_path, answers, waiting):
    """A LIM knew it some seconds later: a lab was removed with two jobs, and nothing was asked."""
    hosts = [f"h{n}" for n in range(len(answers))]
    paths = lambda host: SimpleNamespace(socket=lambda daemon: (host, daemon))  # noqa: E731
    plan = SimpleNamespace(paths=paths, hosts=hosts)
    monkeypatch.setattr(program, "load", lambda root: SimpleNamespace(plan=plan))

    def ask(place, question, _):
        host, daemon = place
        assert (daemon, question) == ("lbm", {"op": "queue.status"})
        if (answer := answers[hosts.index(host)]) is None:
            raise LbdError("no answer")
        return {"queued": answer}

    monkeypatch.setattr(program, "ask", ask)
    assert program.at_work(tmp_path) == (0, waiting)
