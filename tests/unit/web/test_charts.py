import math

import pytest

from lbd.web import charts

NAN = math.nan


@pytest.mark.parametrize(
    ("points", "top"),
    [((), 1.0), ((NAN,), 1.0), ((0.2,), 1.0), ((1.5, NAN), 2.0), ((3,), 5.0), ((70, 2), 100.0)],
)
def test_the_top_is_a_round_number_and_not_exceeded(points, top):
    assert charts.top_of(points) == top


def test_a_line_is_interrupted_where_nothing_is_known():
    assert charts.path((0.0, 1.0, NAN, 1.0), 30, 10) == "M0.0,10.0L10.0,0.0M20.0,0.0L30.0,0.0"
    assert charts.path((1.0, NAN, 1.0), 20, 10) == "M0.0,0.0L10.0,0.0M10.0,0.0L20.0,0.0"
    assert charts.path((1.0,), 20, 10) == "M0.0,0.0L20.0,0.0"
    assert charts.area((0.0, 1.0, NAN), 20, 10) == "M0.0,10.0L10.0,0.0L10.0,10L0.0,10Z"
    assert charts.path((), 30, 10) == charts.area((), 30, 10) == ""


def test_a_small_line_and_its_area_are_one_path_that_ends_out_of_sight():
    spark = charts.spark_of((0.0, 1.0, 0.5))
    assert (spark.path, spark.width) == ("M-1,50V48H0l1,-48l1,24H3V50", 2)
    assert charts.spark_of((NAN, 1.0, 1.0, NAN)).path == "M1,50V0l1,0V50"
    assert charts.spark_of(()).path == ""
    assert charts.spark_of((0.5,) * 120).width == 39


def test_a_chart_in_words():
    assert charts.in_words((NAN,)) == "nothing known yet"
    assert charts.in_words((0.5, NAN, 2.0)) == "lowest 0.50, highest 2.00, last 2.00"


def test_a_small_line_has_few_points():
    assert charts.thinned((1.0, 3.0, NAN, 5.0), 2) == (2.0, 5.0)
    assert math.isnan(charts.thinned((NAN, NAN, 1.0), 2)[0])
    assert len(charts.thinned((0.5,) * 120, 40)) == 40
    assert charts.thinned((), 40) == ()
