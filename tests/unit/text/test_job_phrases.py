import pytest

from lbd.text.job_phrases import jobs_do, only_together, shell_line_remark


@pytest.mark.parametrize(
    ("ids", "said"),
    [("3", "job 3 waits"), ("1-20000", "jobs 1-20000 wait"), ("7-9", "jobs 7-9 wait")],
)
def test_the_verb_agrees_in_number(ids, said):
    assert jobs_do(ids, "waits", "wait") == said


def test_without_a_verb():
    assert [jobs_do("3"), jobs_do("3-4")] == ["job 3", "jobs 3-4"]


@pytest.mark.parametrize(
    ("ids", "array"),
    [(["12"], ""), (["3-5", "last", "@me"], ""), (["3", "12_7"], "12"), (["12_[3-5]"], "12")],
)
def test_tasks_are_updated_together(ids, array):
    assert only_together(ids).partition("; ")[2] == (array and f"name the array, {array}")


@pytest.mark.parametrize(
    ("command", "is_line"),
    [
        ([b"echo hi | wc"], True),
        ([b"/bin/echo hi>f"], True),
        ([b"sleep 5"], True),
        ([b"make"], False),
        ([b"./my program"], False),
        ([b"sh", b"-c", b"echo hi | wc"], False),
        ([b"/opt/a b/c"], False),
        ([], False),
    ],
)
def test_a_line_for_a_shell_is_not_a_program(command, is_line):
    said = shell_line_remark(command)
    assert bool(said) is is_line
    assert "use lbrun sh -c 'LINE'" in said or not is_line
