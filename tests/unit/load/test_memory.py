"""How much memory exists: on the host, and within a cgroup's limit."""

import pytest

from lbd.load.memory import Memory, MemoryReader, PressureReader

KIB = 1024
MEMINFO = (
    "MemTotal:       8000 kB\nMemFree:         100 kB\nMemAvailable:   5000 kB\nBuffers: 1 kB\n"
)


def test_available_memory_counts_caches_as_free(tmp_path):
    (tmp_path / "meminfo").write_text(MEMINFO)
    reader = MemoryReader(str(tmp_path / "meminfo"))
    assert reader.read() == Memory(8000 * KIB, 5000 * KIB)
    (tmp_path / "meminfo").write_text(MEMINFO.replace("5000", "4000"))
    assert reader.read() == Memory(8000 * KIB, 4000 * KIB)


@pytest.mark.parametrize(
    ("limit", "used", "memory"),
    [
        (4000 * KIB, 1000 * KIB, Memory(4000 * KIB, 3000 * KIB)),
        (4000 * KIB, 5000 * KIB, Memory(4000 * KIB, 0)),
        (7900 * KIB, 0, Memory(7900 * KIB, 5000 * KIB)),  # others have the rest
        (9000 * KIB, 0, Memory(8000 * KIB, 5000 * KIB)),
        ("max", 0, Memory(8000 * KIB, 5000 * KIB)),
    ],
)
def test_a_limit_of_the_cgroup_counts_as_the_total(tmp_path, limit, used, memory):
    (tmp_path / "meminfo").write_text(MEMINFO)
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text(f"{used}\n")
    assert MemoryReader(str(tmp_path / "meminfo"), tmp_path).read() == memory


@pytest.mark.parametrize("text", ["", "MemTotal: x kB\n", "MemTotal: 8 kB\n"])
def test_what_cannot_be_read_is_unknown(tmp_path, text):
    (tmp_path / "meminfo").write_text(text)
    assert MemoryReader(str(tmp_path / "meminfo")).read() == Memory()
    assert MemoryReader(str(tmp_path / "nothing")).read() == Memory()


def test_this_machine_has_some():
    found = MemoryReader().read()
    assert 0 < found.available <= found.total


PRESSURE = (
    "some avg10=9.00 avg60=0.10 avg300=0.00 total=519203\n"
    "full avg10=4.25 avg60=0.00 avg300=0.00 total=88744\n"
)


def test_the_pressure_is_that_of_the_cgroup_if_there_is_one(tmp_path):
    (tmp_path / "pressure").write_text(PRESSURE)
    assert PressureReader(str(tmp_path / "pressure")).read() == 4.25
    assert PressureReader(str(tmp_path / "pressure"), tmp_path).read() == 4.25
    (tmp_path / "memory.pressure").write_text(PRESSURE.replace("4.25", "50.00"))
    assert PressureReader(str(tmp_path / "pressure"), tmp_path).read() == 50.0


@pytest.mark.parametrize("text", ["", "full avg10=x\n", "full avg10=", "some avg10=9.00\n"])
def test_an_unreadable_pressure_is_none(tmp_path, text):
    (tmp_path / "pressure").write_text(text)
    assert PressureReader(str(tmp_path / "pressure")).read() == 0.0
    assert PressureReader(str(tmp_path / "nothing")).read() == 0.0
