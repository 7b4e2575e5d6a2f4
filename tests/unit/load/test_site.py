import pytest

from lbd.config.schema import LoadConfig
from lbd.errors import ConfigError
from lbd.load import index, site


@pytest.mark.parametrize(
    ("output", "loads"),
    [
        (b"gpu 0.5\n", {"gpu": 0.5}),
        (b"gpu 0\n\n  users.in  12 \n", {"gpu": 0.0, "users.in": 12.0}),
        (b"gpu 1\ngpu 2", {"gpu": 2.0}),  # the later one counts
    ],
)
def test_lines_of_name_and_value(output, loads):
    assert site.loads_in(output) == loads


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (b"", "printed nothing"),
        (b"\n \n", "printed nothing"),
        (b"gpu", 'printed "gpu", which is not a name and a number'),
        (b"gpu 1 2", "gpu 1 2"),
        (b"gpu -1", "gpu -1"),
        (b"gpu nan", "gpu nan"),
        (b"gpu inf", "gpu inf"),
        (b"gpu 1e9", "gpu 1e9"),
        (b"1 2", '"1 2"'),
        (b"g\x1b[31mpu 1", r"g\?\[31mpu 1"),
        (b"x" * 40 + b" 1", "x" * 40),
        (b"\xff\xfe 1", "which is not a name"),
        (b"gpu 1\n" * 1000, "more than 4096 bytes"),
        (b"".join(b"a%d 1\n" % n for n in range(9)), "more than 8 loads"),
    ],
)
def test_output_that_it_may_not_print(output, says):
    with pytest.raises(ValueError, match=says) as caught:
        site.loads_in(output)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 160


def test_its_output_is_valid_for_three_periods():
    loads = site.SiteLoads(LoadConfig(site_period_s=5.0, site_timeout_s=2.0))
    assert loads.at(0.0) == {}
    loads.said({"gpu": 1.0}, 10.0)
    assert loads.at(27.0) == {"gpu": 1.0}
    assert loads.at(27.1) == {}


def test_an_unavailable_index_falls_back():
    load = LoadConfig(index="site:gpu")
    assert site.wanted(load) == "gpu"
    assert site.fallen_back(load, {"gpu": 1.0}) is load
    assert site.fallen_back(load, {"users": 1.0}).index == "smoothed"
    assert site.fallen_back(LoadConfig(index="queue-4"), {}).index == "queue-4"
    assert index.fade_s(load) == 5.5
    with pytest.raises(ConfigError, match='"g!" is not a name like users or gpu-0'):
        LoadConfig(index="site:g!")


def test_a_failing_command_is_run_less_and_less_often():
    load = LoadConfig(site_period_s=5.0)
    assert [site.pause_s(load, n) for n in (0, 1, 2, 3, 4, 99)] == [5, 10, 20, 40, 60, 60]
    assert site.pause_s(LoadConfig(site_period_s=600.0), 9) == 600
