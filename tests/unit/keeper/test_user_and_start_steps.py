"""How an order is translated: the steps of a child, in their order."""

import errno

import pytest

from lbd.keeper import user_and_start_steps as steps
from lbd.keeper.spawn_order import Order
from lbd.launch.directory_stamp import Stamp
from lbd.local import frames

HERE = steps.Surroundings((0, 0, 0), "kernel", b"LBD_KEPT=/run:", 990)


def compiled(here=HERE, **asks):
    order = Order(job="7.1", argv=[b"cc"], **asks)
    frame = steps.compile_order(
        order, here, tuple((n, (soft, hard)) for n, soft, hard in order.limits)
    )
    return frames.fields(frame[frames.HEADER_BYTES :])


def test_it_becomes_the_user_before_it_changes_directory():
    letters = b"".join(letter for letter, _ in compiled(user=(1000, 1000, 27), limits=((7, 1, 2),)))
    assert letters == b"adddWgGUkuCeLx"
    values = dict(compiled(user=(1000, 1001, 27, 28)))
    assert steps.read_numbers(values[steps.GROUPS]) == (27, 28)
    assert steps.read_numbers(values[steps.GROUP]) == (1001,)
    assert steps.read_numbers(values[steps.USER]) == (1000,)


def test_no_step_but_exec_can_fail_by_the_limits_of_the_command():
    """Another's failure was the host's fault, so that a user could have it set aside for all."""
    letters = [letter for letter, _ in compiled(limits=((2, 4096, 4096),), denied=("*",))]
    assert letters[-2:] == [steps.TRY_LIMIT, steps.EXEC]
    worker = compiled(limits=((2, 4096, 4096),), worker="pack")
    assert worker[-2:] == [(steps.TRY_LIMIT, steps.numbers(2, 4096, 4096)), (steps.WORKER, b"")]


def test_it_need_not_become_the_user_that_it_is():
    assert steps.USER not in dict(compiled(user=(0, 0, 0)))
    assert steps.USER in dict(compiled(user=(0, 0)))


def test_the_mark_is_set_by_the_keeper():
    environment = {b"LBD_KEPT": b"forged", b"A": b"1"}
    found = dict(compiled(environment=environment))[steps.VARIABLES]
    assert found == b"LBD_KEPT=/run:7.1\0A=1\0"


def test_if_there_are_rules_no_variable_brings_code():
    found = dict(compiled(environment={b"LD_PRELOAD": b"x", b"A": b"1"}, denied=("*",)))
    assert b"LD_PRELOAD" not in found[steps.VARIABLES]


@pytest.mark.parametrize(
    "asks",
    [
        {"closed_fds": 4},
        {"limits": ((7, 1, 2),)},
        {"nice": 5},
        {"user": (1000, 1000)},
        {"no_new_privileges": True},
        {"ignored_signals": 2},
        {"umask": 0o77},
        {"directory": b"/tmp"},
        {"stamp": Stamp("kernel", 1, 2)},
    ],
    ids=lambda asks: next(iter(asks)),
)
def test_no_command_gets_the_steps_of_the_previous_one(asks):
    before = compiled()
    found = compiled(**asks)
    assert found != before
    assert compiled() == before
    assert compiled(**asks) == found


@pytest.mark.parametrize("asks", [{"directory": b"/a\0b"}, {"environment": {b"A": b"\0"}}])
def test_a_zero_byte_does_not_end_a_string(asks):
    with pytest.raises(steps.Refused) as refused:
        compiled(**asks)
    assert (refused.value.phase, refused.value.number) == ("exec", errno.ENOENT)


def test_a_failure_is_reported_as_its_phase():
    assert steps.read_failure(steps.failed(steps.GROUPS, errno.EPERM)) == ("user", errno.EPERM)
    assert steps.read_failure(steps.RULED_OUT + b"programs") == ("admission.programs", errno.EACCES)
    assert steps.read_failure(b"F") == steps.read_failure(b"?") == ("spawn", 0)


def test_numbers_use_exactly_64_bits():
    most = (1 << 64) - 1
    assert steps.read_numbers(steps.numbers(1, most, -1)) == (1, -1, -1)
    assert steps.read_numbers(steps.numbers(1 << 63)) == (-(1 << 63),)
    with pytest.raises(steps.Refused):
        steps.numbers(1, 1 << 64)


def test_steps_compiled_once_for_many_are_kept_apart():
    assert steps.placing(0b010) != steps.placing(0)
    assert steps.becoming((1, 2)) != steps.becoming((1, 2, 3))


def test_no_lbm_has_a_command_come_before_others():
    """Root sets the nice value, before it becomes the user."""
    values = [
        steps.read_numbers(dict(compiled(nice=nice))[steps.NICE]) for nice in (-20, -1, 5, 30)
    ]
    assert values == [(nice,) for nice in (0, 0, 5, 19)]
