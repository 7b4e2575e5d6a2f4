"""`lbd sim backfill` on a small trace."""

import pytest

from lbd.cli.main import main

JOBS = ((0, 100, 3, 100), (1, 50, 4, 50), (2, 60, 1, 90), (3, -1, 1, 9), (4, 200, 1, 300))


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "t.swf"
    lines = [
        f"{n} {at} 0 {ran} {slots} -1 -1 {slots} {asked} -1 1 7 1 2 1 1 -1 -1\n"
        for n, (at, ran, slots, asked) in enumerate(JOBS, 1)
    ]
    path.write_text("; a comment\n" + "".join(lines))
    return path


def test_each_rule_is_a_line_beside_easy(trace, capsys):
    assert main(["sim", "backfill", "--trace", str(trace), "--slots", "4"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    found = {row[0]: row[1:] for row in rows}
    assert found["limit"] == found["(EASY)"]
    assert (found["off"][0], found["limit"][0]) == ("98", "61")  # the third begins at once


def test_an_unreadable_trace_is_one_line(tmp_path, capsys):
    assert main(["sim", "backfill", "--trace", "/nowhere.swf", "--slots", "4"]) == 2
    (tmp_path / "empty").write_text("; nothing\n")
    assert main(["sim", "backfill", "--trace", str(tmp_path / "empty"), "--slots", "4"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "No such file" in said[0]
    assert "no job that ran" in said[1]
