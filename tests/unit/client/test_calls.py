"""How `lbd.client` treats its options and the results of lbrun."""

import json
import subprocess
import sys

import pytest

from lbd.client.calls import (
    Client,
    Completed,
    IsArray,
    Job,
    JobFailed,
    completed_of,
    id_of,
    option_words,
)
from lbd.errors import LbdError
from lbd.local.json_socket import SEVERAL, Refusal

JOB = Job(Client(), "7")


def test_options_are_those_of_lbrun():
    options = {
        "host": "h2", "no_restart": True, "queue_up": False, "mem": None, "exclude": ["h3", "h4"],
        "env": {"A": "1", "B": "x=y"}, "timeout": 1.5, "need": {"gpu": 2}, "feature": "big",
        "not_feature": ["slow", "old"],
    }  # fmt: skip
    assert option_words(options) == [
        "--host=h2", "--no-restart", "--exclude=h3", "--exclude=h4", "--env=A=1", "--env=B=x=y",
        "--timeout=1.5", "--need=gpu=2", "--feature=big", "--not-feature=slow",
        "--not-feature=old",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"array": range(3)}, "--array=0-2"),
        ({"array": [7, 1, 2, 9]}, "--array=1-2,7,9"),
        ({"array": "1-10%2"}, "--array=1-10%2"),
        ({"after": JOB}, "--after=7"),
        ({"after_any": [JOB, 8, "9_1"]}, "--after-any=7,8,9_1"),
        ({"after": "last"}, "--after=last"),
    ],
)
def test_a_list_means_all_of_it(option, word):
    """Only the last index of an array became a task, since lbrun was given each in turn."""
    assert option_words(option) == [word]


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"host": ["h2", "h3"]}, r"host= takes one value, not \['h2', 'h3'\]"),
        ({"mem": ("2G",)}, "mem= takes one value"),
        ({"array": [0.5]}, "array= takes whole numbers or a text like '1-10', not 0.5"),
        ({"array": ["1-10"]}, "array= takes whole numbers or a text like '1-10', not '1-10'"),
    ],
)
def test_a_list_that_would_be_read_as_its_last_value_is_refused(option, said):
    with pytest.raises(TypeError, match=said):
        option_words(option)


@pytest.mark.parametrize("name", ["detach", "tty", "status_file", "help"])
def test_options_that_are_not_for_programs_are_refused(name):
    with pytest.raises(TypeError, match=name):
        option_words({name: True})


@pytest.mark.parametrize(
    ("argv", "data", "said"),
    [
        ("ls -l", None, "a command is a list of words, not 'ls -l'"),
        (["echo", 5], None, "a word of a command is a string or a path, not 5"),
        (["cat"], "text", "input is bytes, not a string"),
    ],
)
def test_what_is_of_the_wrong_type_is_named(argv, data, said):
    for call in (Client().run, Client().submit):
        with pytest.raises(TypeError, match=said):
            call(argv, input=data)


class Asked(Client):
    """Asks an LBM that knows one array and its two tasks, which have ended."""

    def ask_lbm(self, question):
        if question["op"] == "queue.logs":
            raise Refusal("62 is an array; name one of its tasks", SEVERAL)
        if question.get("tasks"):
            return {"jobs": [{"id": "62_1"}, {"id": "62_2"}]}
        return {"jobs": [{"id": "62", "array": "1-2", "state": "done"}], "open": 0}


def test_an_array_has_tasks_but_no_result():
    job = Asked().job(62)
    assert [task.id for task in job.tasks()] == ["62_1", "62_2"]
    for call in (job.result, job.logs):
        with pytest.raises(IsArray, match=r"^job 62 is an array: each of its tasks\(\) has"):
            call()


def test_how_a_command_ended_is_returned(tmp_path):
    status = tmp_path / "status"
    found = {"exit_status": 3, "signal": None, "host": "h2", "cause": "exited", "reason": None}
    status.write_text(json.dumps(found))
    ended = completed_of(["sh"], status, 3, b"out", b"err")
    assert ended == Completed(("sh",), 3, None, "h2", "exited", b"out", b"err")
    with pytest.raises(JobFailed, match="sh: exit status 3 on h2") as caught:
        ended.check()
    assert caught.value.completed is ended
    status.write_text(json.dumps(found | {"cause": "failed", "reason": "no host h9"}))
    with pytest.raises(LbdError, match=r"^no host h9$"):
        completed_of(["sh"], status, 125, b"", b"")


def test_a_command_ended_by_its_time_limit_says_so(tmp_path):
    """It used to say signal 15."""
    status = tmp_path / "status"
    reason = "ended at its time limit of 2 s"
    found = {"exit_status": 124, "signal": 15, "host": "h1", "cause": "timeout", "reason": reason}
    status.write_text(json.dumps(found))
    ended = completed_of(["sleep", "30"], status, 124, b"", b"")
    with pytest.raises(JobFailed, match=r"^sleep 30: ended at its time limit of 2 s on h1$"):
        ended.check()


def test_the_error_of_lbrun_is_raised(tmp_path):
    with pytest.raises(LbdError, match=r"^unknown option --hots$"):
        completed_of(["sh"], tmp_path / "none", 125, b"", b"lbrun: unknown option --hots\n")
    with pytest.raises(LbdError, match=r"^no queue$"):
        id_of(125, b"", b"lbrun: no queue\n")


def test_a_command_that_was_killed_with_its_lbrun(tmp_path):
    assert completed_of(["x"], tmp_path / "none", -15, b"", b"").signal == 15


def test_names_are_imported_when_they_are_used():
    program = (
        "import sys, lbd.client; assert 'lbd.client.calls' not in sys.modules\n"
        "from lbd.client import Client, Completed, Job, JobFailed, aio\n"
        "assert aio.Client is not Client\n"
        "import lbd; assert lbd.client is sys.modules['lbd.client']\n"
        "assert 'cloudpickle' not in sys.modules\n"
        "assert not hasattr(lbd, 'x') and not hasattr(lbd.client, 'x')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
