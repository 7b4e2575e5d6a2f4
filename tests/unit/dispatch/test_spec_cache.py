from lbd.dispatch.spec_cache import Specs


def test_the_most_recently_used_specs_are_kept_as_far_as_there_is_room():
    specs = Specs(bytes_max=350)
    for submission in (1, 2, 3):
        specs.keep(submission, "spec", 100)
    assert specs.get(1) is not None
    specs.keep(4, "spec", 100)
    assert [n for n in range(1, 5) if specs.get(n)] == [1, 3, 4]


def test_a_spec_larger_than_all_room_is_kept_until_the_next():
    specs = Specs(bytes_max=350)
    specs.keep(1, "spec", 100)
    specs.keep(2, "large", 1000)
    assert (specs.get(1), specs.get(2)) == (None, "large")
    specs.keep(3, "spec", 300)
    assert specs.get(2) is None
    assert specs.get(3) is not None


def test_the_same_spec_counts_once():
    specs = Specs(bytes_max=350)
    for submission in (1, 2, 2, 2, 3):
        specs.keep(submission, "spec", 100)
    assert all(specs.get(n) for n in (1, 2, 3))
