"""`lbd sim figure` and `lbd sim list`.

Whether claims hold is tested in tests/simulation: for TAGS every claim, for the thesis those that
do not depend on a parameter.
"""

import io
import json
import sys
import tarfile
from random import Random

import pytest

from lbd.cli.main import main
from lbd.sim.figures.catalogue import FIGURES
from lbd.sim.figures.figure import Scale, plain_map

QUICK = ["--duration", "20s", "--replications", "2", "--workers", "1"]


@pytest.fixture
def quick():
    """Makes a figure that takes a moment."""
    return ["sim", "figure", "zhou-3.5a", *QUICK]


def test_the_list(capsys):
    assert main(["sim", "list", "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert reply["schema"] == 1
    assert [item["name"] for item in reply["figures"]] == list(FIGURES)
    assert main(["sim", "list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(FIGURES) + 1


def test_numbers_and_claims(capsys, quick):
    assert main([*quick, "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    (line,) = reply["lines"]
    assert line["x"] == [1, 2, 3, 5, 8]
    assert len(line["y"]) == len(line["interval"]) == 5
    assert reply["claims"][0].keys() == {"text", "holds", "ours"}


def test_a_line_for_each_claim(capsys, quick):
    assert main(quick) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.splitlines()[-1].startswith(("holds: one reservation", "DOES NOT HOLD: one"))


@pytest.mark.parametrize(
    ("more", "code", "part"),
    [
        (["--out", "x.pdf"], 2, ".svg or .png"),
        (["--out", "/nowhere/x.svg"], 2, "no such directory"),
        (["--replications", "1"], 2, "2 to 10000"),
    ],
)
def test_what_is_refused(complaint, quick, more, code, part):
    assert main([*quick, *more]) == code
    assert part in complaint()


def test_a_figure_of_series_is_points(capsys, tmp_path):
    rng, file = Random(1), tmp_path / "series.tar"
    with tarfile.open(file, "w") as archive:
        for number in range(20):
            text = "".join(f"{rng.choice((3, 40))}\n" for _ in range(100)).encode()
            entry = tarfile.TarInfo(f"day/h{number}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text))
    assert main(["sim", "figure", "he-3", "--series", str(file), "--json"]) == 0
    reply = json.loads(capsys.readouterr().out)
    assert [len(line["x"]) for line in reply["lines"]] == [20, 6, 6, 6]
    assert "series" not in reply
    assert main(["sim", "figure", "he-3", "--series", str(file)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4  # no column for each host


@pytest.mark.parametrize(
    ("words", "said"),
    [([], "he-3: series of 18 hosts or more: none is given"),
     (["--series", "/nowhere.tar"], "figure: --series /nowhere.tar: [Errno 2]")],
)  # fmt: skip
def test_series_that_are_missing_are_one_line(complaint, words, said):
    assert main(["sim", "figure", "he-3", *words]) == 2
    assert said in complaint()


def test_for_an_unknown_figure_the_nearest_name_is_suggested(capsys):
    assert main(["sim", "figure", "zhou-3.44"]) == 2
    assert 'did you mean "zhou-3.4"' in capsys.readouterr().err


def test_without_matplotlib_one_line_says_so_before_anything_is_simulated(
    capsys, quick, monkeypatch, tmp_path
):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main([*quick, "--out", str(tmp_path / "x.svg")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"lbd sim: drawing needs matplotlib: {sys.executable} -m pip install matplotlib; "
        "--json does without\n"
    )


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_it_is_drawn(capsys, quick, tmp_path, ending):
    pytest.importorskip("matplotlib", reason="the extra sim is not installed")
    out = tmp_path / f"x.{ending}"
    assert main([*quick, "--out", str(out)]) == 0
    assert out.read_bytes().startswith(b"<?xml" if ending == "svg" else b"\x89PNG")


@pytest.mark.parametrize("name", [name for name in FIGURES if name.startswith("zhou-")])
def test_each_figure_can_be_made(name):
    drawing = FIGURES[name].make(Scale(duration_s=8.0, replications=2), plain_map)
    assert drawing.lines
    assert drawing.claims
    for line in drawing.lines:
        assert len(line.x) == len(line.y)
