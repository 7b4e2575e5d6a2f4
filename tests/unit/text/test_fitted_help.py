"""A --help that fits the terminal."""

from lbd.text.fitted_help import fitted

TEXT = """\
usage: x [OPTIONS]

One sentence that is longer
than that.

  -a, --all       every one of them that there is
  --first, --second ID
                  the same of those, and more
  --short         fits

examples:
  x --all --first 12 --second 13 14 15
  x               everything
"""
FITTED = """\
usage: x [OPTIONS]

One sentence that is
longer than that.

  -a, --all
      every one of them
      that there is
  --first, --second ID
 the same of those, and
 more
  --short         fits

examples:
  x --all --first 12 \\
      --second 13 14 15
  x
      everything
"""


def test_text_that_is_too_wide_is_wrapped_in_its_column():
    assert fitted(TEXT, 100) == TEXT
    assert fitted(TEXT, 25) == FITTED


def test_a_row_keeps_its_columns_if_there_is_room():
    assert fitted("  x    " + "word " * 10, 40).splitlines() == [
        "  x    word word word word word word",
        "       word word word word",
    ]
