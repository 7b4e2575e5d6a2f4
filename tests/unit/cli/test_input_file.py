"""Whatever file a simulation is given, the answer is one line that names it."""

import gzip

import pytest

from lbd.cli import main as lbd

TEXT = b"0 1 0\n1 1 0\n" * 500
WHOLE = gzip.compress(TEXT)
BROKEN = WHOLE[: len(WHOLE) // 2] + b"\x55" * 20
UNREADABLE = {
    "absent": (None, "No such file or directory"),
    "binary": (bytes(range(256)), "not a text file"),
    "cut.gz": (WHOLE[:-12], "damaged gzip file"),
    "headless.gz": (WHOLE[:5], "damaged gzip file"),
    "broken.gz": (BROKEN, "damaged gzip file"),
    "binary.gz": (gzip.compress(bytes(range(256))), "not a text file"),
}


BALANCE, REPLAY = ("balance", "--workload"), ("replay",)
AT_ONCE = ("absent", "binary", "headless.gz", "binary.gz")  # fails before a first line is read


@pytest.mark.parametrize(
    ("words", "name"),
    [*((BALANCE, name) for name in UNREADABLE), *((REPLAY, name) for name in AT_ONCE)],
)
def test_one_line_says_what_is_wrong(words, name, tmp_path, complaint):
    content, says = UNREADABLE[name]
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    elif words[0] == "balance":
        says = "nor a file of that name"
    assert lbd.main(["sim", *words, str(path)]) == 2
    err = complaint()
    assert err.count(str(path)) == 1
    assert says in err


def test_a_line_without_end_is_not_read_to_its_end(tmp_path, capsys):
    path = tmp_path / "zeros"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # a hole: no machine has the memory for that
    assert lbd.main(["sim", "balance", "--workload", str(path)]) == 2
    assert "a line of more than" in capsys.readouterr().err


def test_gzip_is_known_by_its_content(tmp_path, capsys):
    path = tmp_path / "jobs"
    path.write_bytes(WHOLE)
    words = ("sim", "balance", "--hosts", "2", "--algorithm", "NOLB", "--replications", "1")
    assert lbd.main([*words, "--workload", str(path)]) == 0
    assert "NOLB" in capsys.readouterr().out
