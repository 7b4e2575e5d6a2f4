"""Values that are believed for a while, and no longer."""

from lbd.process.timed_cache import TimedCache


def test_a_value_is_known_until_its_time_is_over():
    known = TimedCache(60.0)
    assert known.get("ann", 0.0) is None
    assert known.put("ann", None, 100.0) is None
    assert known.get("ann", 159.9) == (None,)
    assert known.get("ann", 160.0) is None
    assert known.put("bob", 1001, 100.0, known_s=5.0) == 1001
    assert known.get("bob", 104.9) == (1001,)
    assert known.get("bob", 105.0) is None


def test_the_age_of_a_value():
    known = TimedCache(60.0)
    assert known.age_s("ann", 7.0) == 0.0
    known.put("ann", 1, 100.0)
    assert known.age_s("ann", 131.0) == 31.0
    known.put("ann", 2, 140.0)
    assert known.age_s("ann", 141.0) == 1.0


def test_it_never_grows_beyond_its_bound():
    known = TimedCache(60.0, known_max=3)
    for number in range(3):
        known.put(number, number, 0.0)
    known.put(2, 9, 0.0)
    assert known.get(0, 1.0) == (0,)
    known.put(3, 3, 0.0)
    assert [known.get(number, 1.0) for number in range(4)] == [None, None, None, (3,)]
