"""The nearest minimum of a smooth function, and the nearest root of several, for a few unknowns.

BFGS, and Newton with Levenberg-Marquardt damping; slopes are numerical. A function marks the end of
its domain by returning infinity, or None. Unknowns should be of order 1 (take logarithms), so that
one step width serves all.
"""

import math
from collections.abc import Callable, Sequence
from operator import mul

Vector = list[float]
Function = Callable[[Sequence[float]], float]
Differences = Callable[[Sequence[float]], Vector | None]

STEP = 1e-5  # of the central differences
LONGEST = 2.0  # length of one move, in any unknown
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
ROUNDS = 100  # of `equalise`
GOOD_ENOUGH = 1e-4  # share of the fall promised by the slope (Armijo)


def minimise(function: Function, start: Sequence[float], rounds: int = 200) -> Vector:
    """Returns the lowest point found from `start`, which must lie within the domain."""
    here, value = list(start), function(start)
    slope = slopes(function, here, value)
    shape = identity(len(here))  # the estimated inverse of the second derivatives
    fresh = True
    for _ in range(rounds):
        move = [-sum(map(mul, row, slope)) for row in shape]
        fall = sum(map(mul, move, slope))
        if fall >= 0 and not fresh:
            shape, fresh = identity(len(here)), True
            continue
        there, there_value = search(function, here, value, shortened(move), fall)
        if there_value >= value - 1e-15 * abs(value):
            if fresh:
                break
            shape, fresh = identity(len(here)), True
            continue
        new_slope = slopes(function, there, there_value)
        step = [b - a for a, b in zip(here, there, strict=True)]
        turn = [b - a for a, b in zip(slope, new_slope, strict=True)]
        shape, fresh = bent(shape, step, turn), False
        here, value, slope = there, there_value, new_slope
    return here


def slopes(function: Function, here: Vector, value: float) -> Vector:
    found = []
    for i, x in enumerate(here):
        ahead, behind = list(here), list(here)
        ahead[i], behind[i] = x + STEP, x - STEP
        up, down = function(ahead), function(behind)
        if math.isinf(up):  # at the edge of the domain: one-sided
            up, down = value, (down if math.isfinite(down) else value)
            found.append((up - down) / STEP)
        elif math.isinf(down):
            found.append((up - value) / STEP)
        else:
            found.append((up - down) / (2 * STEP))
    return found


def search(
    function: Function, here: Vector, value: float, move: Vector, fall: float
) -> tuple[Vector, float]:
    """Halves `move` until the function falls enough; returns `here` if it never does."""
    share = 1.0
    while share > 1e-12:
        there = [x + share * m for x, m in zip(here, move, strict=True)]
        if (reached := function(there)) <= value + GOOD_ENOUGH * share * fall:
            return there, reached
        share *= 0.5
    return here, value


def shortened(move: Vector) -> Vector:
    longest = max(map(abs, move), default=0.0)
    return [m * LONGEST / longest for m in move] if longest > LONGEST else move


def identity(size: int) -> list[Vector]:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def bent(shape: list[Vector], step: Vector, turn: Vector) -> list[Vector]:
    """Returns the BFGS update of the inverse second derivatives by one step and the change of
    slope."""
    along = sum(map(mul, step, turn))
    if along <= 1e-14 * math.sqrt(sum(map(mul, step, step)) * sum(map(mul, turn, turn))):
        return shape
    image = [sum(map(mul, row, turn)) for row in shape]
    scale = (1.0 + sum(map(mul, turn, image)) / along) / along
    return [
        [
            cell + scale * si * sj - (ii * sj + si * ij) / along
            for cell, sj, ij in zip(row, step, image, strict=True)
        ]
        for row, si, ii in zip(shape, step, image, strict=True)
    ]


def equalise(differences: Differences, start: Sequence[float]) -> Vector:
    """Returns where all differences vanish, or as near to it as `start` leads. There are as many
    differences as unknowns."""
    here, found = list(start), differences(start)
    assert found is not None
    damping = 1e-3
    for _ in range(ROUNDS):
        jacobian = columns(differences, here, found)
        error = sum(map(mul, found, found))
        if error < 1e-24:
            break
        while damping < 1e12:
            move = shortened(damped_step(jacobian, found, damping))
            there = [x + m for x, m in zip(here, move, strict=True)]
            reached = differences(there)
            if reached is not None and sum(map(mul, reached, reached)) < error:
                here, found, damping = there, reached, max(damping / 10, 1e-12)
                break
            damping *= 4
        else:
            break
    return here


def columns(differences: Differences, here: Vector, found: Vector) -> list[Vector]:
    """Returns, for each unknown, how every difference changes with it."""
    rows = []
    for i, x in enumerate(here):
        for step in (STEP, -STEP, STEP / 1e3, -STEP / 1e3):
            moved = list(here)
            moved[i] = x + step
            if (there := differences(moved)) is not None:
                rows.append([(b - a) / step for a, b in zip(found, there, strict=True)])
                break
        else:
            rows.append([0.0] * len(found))
    return rows


def damped_step(jacobian: list[Vector], found: Vector, damping: float) -> Vector:
    """Solves (JᵀJ + damping·diag) step = -Jᵀ found, by elimination."""
    size = len(jacobian)
    table = [
        [sum(map(mul, jacobian[i], jacobian[j])) for j in range(size)]
        + [-sum(map(mul, jacobian[i], found))]
        for i in range(size)
    ]
    for i in range(size):
        table[i][i] += damping * table[i][i] + 1e-30
    for i in range(size):
        pivot = max(range(i, size), key=lambda r: abs(table[r][i]))
        table[i], table[pivot] = table[pivot], table[i]
        if table[i][i] == 0:
            return [0.0] * size
        for r in range(i + 1, size):
            share = table[r][i] / table[i][i]
            table[r] = [a - share * b for a, b in zip(table[r], table[i], strict=True)]
    step = [0.0] * size
    for i in reversed(range(size)):
        rest = sum(map(mul, table[i][i + 1 : size], step[i + 1 :]))
        step[i] = (table[i][size] - rest) / table[i][i]
    return step


def golden_section(
    function: Callable[[float], float], low: float, high: float, width: float
) -> tuple[float, float]:
    """Brackets, to `width`, the minimum of a function with a single valley between low and high."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = function(left), function(right)
    while high - low > width:
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = function(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = function(right)
    return low, high
