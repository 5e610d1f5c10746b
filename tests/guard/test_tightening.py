"""Limits that change while a guard runs: how far, and those of every kind."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest

from rlstack.errors import UserError
from rlstack.guard.guard import Guard
from rlstack.guard.tightening import LiveLimits
from rlstack.kinds import find_kind
from rlstack.robots import load_robot


def made(name: str) -> Guard:
    robot = load_robot(name)
    guard: Guard = find_kind(robot.kind).load("guard")(robot)
    return guard


def by(limit: str, value: float | tuple[float, ...], raised: bool, step: float) -> float | tuple[float, ...]:
    """Return a limit that is tighter by a step, or wider where the step is below 0."""
    up = step if raised or limit.endswith("_min_m") else -step
    return tuple(number + up for number in value) if isinstance(value, tuple) else value * (1.0 + up)


@pytest.mark.parametrize("name", ["crazyflie", "turtlebot3_burger", "panda", "go1"])
def test_every_live_limit_is_tightened_and_goes_back_to_where_it_started(name: str) -> None:
    guard = made(name)
    limits, started = LiveLimits(guard), guard.config
    texts = {field.name: field.metadata.get("text") for field in fields(started)}
    assert guard.LIVE and all(texts[limit] for limit in guard.LIVE)
    for limit in guard.LIVE:
        own = getattr(started, limit)
        raised = limit in started.RAISED
        tight, wide = (by(limit, own, raised, step) for step in (0.01, -0.01))
        limits.change({limit: tight})
        assert getattr(guard.config, limit) == tight
        limits.change({limit: own})
        assert guard.config == started
        with pytest.raises(UserError, match=rf"{limit}: .* is wider than the .* that the guard was started with"):
            limits.change({limit: wide})
        assert guard.config == started


def test_a_refusal_names_both_values_and_nothing_of_the_request_is_taken() -> None:
    guard = made("crazyflie")
    limits, started = LiveLimits(guard), guard.config
    for wanted, words in (
        ({"tilt_rad": 0.5, "linear_velocity_m_s": 9.0}, r"linear_velocity_m_s: 9\.0 is wider than the 3\.0 that"),
        ({"tilt_rad": 0.5, "geofence_min_m": (0.0, 0.0, -1.0)}, r"\[0\.0, 0\.0, -1\.0\] is wider than the \[-3\.0, "),
        ({"geofence_max_m": (1.0, 1.0)}, "must be a list of 3"),
        ({"geofence_max_m": (1.0, 1.0, -0.5)}, "every number must be above geofence_min_m"),
        ({"tilt_rad": math.nan}, "must be a finite number"),
        ({"tilt_rad": 0.0}, "must be above 0.0 rad"),
    ):
        with pytest.raises(UserError, match=words):
            limits.change(wanted)
        assert guard.config == started
