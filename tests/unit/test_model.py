from dataclasses import dataclass

from lbd.model import quick_value


@quick_value
class Here:
    a: int
    b: tuple[str, ...] = ()


@quick_value
class There:
    a: int
    b: tuple[str, ...] = ()


def test_quick_values_are_equal_by_type_and_content():
    assert Here(1, ("x",)) == Here(1, ("x",))
    assert Here(1, ("x",)) != Here(2, ("x",))
    assert Here(1) != There(1)
    assert Here(1) != 1
    assert len({Here(1), Here(1), There(1), Here(2)}) == 3


def test_quick_values_are_shown_like_dataclasses():
    """In one line of a log, or where a test fails."""
    usual = dataclass(type("Here", (), {"__annotations__": {"a": int, "b": tuple}}))
    assert repr(Here(1, ("x",))) == repr(usual(1, ("x",)))
