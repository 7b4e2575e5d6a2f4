import pytest

from lbd.text import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("1.5", 1.5),
        ("0", 0.0),
        ("20s", 20.0),
        ("2m", 120.0),
        ("1h30m", 5400.0),
        ("1d2h3m4s", 93784.0),
        ("500ms", 0.5),
        ("1.5h", 5400.0),
        ("1:30", 90.0),
        ("90:00", 5400.0),
        ("1:30:00", 5400.0),
        ("100:00:00", 360000.0),
        ("1-06", 108000.0),
        ("1-06:00", 108000.0),
        ("1-06:00:05", 108005.0),
    ],
)
def test_durations(text, seconds):
    assert units.duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "s", "x", "1x", "1h30", "30m1h", "1h1h", "-3", "1e9", "inf", "nan", "1 s", "1..2", "٣",
     ":", "1:", ":30", "1:30:", "1:2:3:4", "1-", "1-2-3", "1-2:3:4:5", "1.5:00", "1h:30", "1:-2",
     "٣:30", "2026-12-01"],
)  # fmt: skip
def test_invalid_durations(text):
    with pytest.raises(ValueError, match="is not a duration; allowed: 90"):
        units.duration_s(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("1:75", "'1:75': its seconds must be below 60"),
        ("1:75:00", "'1:75:00': its minutes must be below 60"),
        ("1-24", "'1-24': its hours must be below 24"),
        ("1-06:00:99", "'1-06:00:99': its seconds must be below 60"),
    ],
)
def test_a_part_that_is_too_large_is_probably_a_typing_error(text, line):
    with pytest.raises(ValueError, match="must be below") as caught:
        units.duration_s(text)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    "text", ["1000000001", "11575d", "11575-00", "9" * 400, "9" * 5000 + ":00"]
)
def test_a_duration_that_no_timer_accepts(text):
    with pytest.raises(ValueError, match="is longer than 1000000000 seconds"):
        units.duration_s(text)


@pytest.mark.parametrize("text", ["9" * 19, "8388608T", "9" * 400])
def test_a_size_that_no_limit_accepts(text):
    with pytest.raises(ValueError, match="is more than 9223372036854775807 bytes"):
        units.size_bytes(text)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096", 4096),
        ("512K", 512 << 10),
        ("2G", 2 << 30),
        ("1.5M", 3 << 19),
        ("1KiB", 1024),
        ("2GB", 2 << 30),
        ("3B", 3),
        ("2g", 2 << 30),
    ],
)
def test_sizes(text, size):
    assert units.size_bytes(text) == size


@pytest.mark.parametrize("text", ["", "K", "x", "3X", "3KK", "-3", "1e9", "1.2.3", "3 K", "inf"])
def test_invalid_sizes(text):
    with pytest.raises(ValueError, match="is not a size; allowed: 4096"):
        units.size_bytes(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.0042, "4.2ms"),
        (0.42, "420ms"),
        (0.9999, "1.0s"),
        (9.97, "10s"),
        (5, "5.0s"),
        (59.9, "59s"),
        (185, "3m05s"),
        (7800, "2h10m"),
        (97200, "1d03h"),
        *((figure, "?") for figure in (1e308, float("inf"), float("-inf"), float("nan"))),
    ],
)
def test_shown_durations(seconds, text):
    assert units.show_duration(seconds) == text


@pytest.mark.parametrize(("size", "text"), [(812, "812"), (4096, "4.0K"), (3 << 29, "1.5G")])
def test_shown_sizes(size, text):
    assert units.show_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (0.5, "0.5s"), (30, "30s"), (90, "1m30s"), (3600, "1h"), (3661, "1h1m"),
     (86400 * 30, "30d"), (86400 + 60, "1d"), (59.7, "1m"), (0.04, "40ms"), (0.0004, "0.4ms"),
     (0.1, "0.1s")],
)  # fmt: skip
def test_duration_text(seconds, text):
    assert units.duration_text(seconds) == text
