"""Runs several calls as one task."""

from collections.abc import Sequence

from lbd.python.pickles import Function


def call(batch: Function) -> object:
    return batch()


def call_each(function: Function, calls: Sequence[tuple[object, ...]]) -> list[object]:
    return [function(*arguments) for arguments in calls]
