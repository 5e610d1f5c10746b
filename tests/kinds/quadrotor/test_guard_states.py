"""Every state that a quadrotor's guard can reach."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.kinds.quadrotor.guard import QuadrotorGuard
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.robots import frames
from tests.support import robots
from tests.support.guard_states import World, declared, explore, requests, run

# Durations below are in seconds: at lower rates there are fewer periods to try.
BY_RATES = replace(load_quadrotor("racer_rates"), control_rate_hz=20.0)
CRAZYFLIE = replace(robots.crazyflie(), control_rate_hz=50.0)
FENCE = {"geofence_min_m": (-3.0, -3.0, -0.2), "geofence_max_m": (3.0, 3.0, 3.0), "linear_velocity_m_s": 3.0}
"""The Crazyflie's, so that the events below mean the same to every robot."""


def signals(x: float = 0.0, z: float = 1.0, vx: float = 0.0, tilt: float = 0.0) -> dict[str, np.ndarray]:
    return {
        "position": np.array([x, 0.0, z]),
        "orientation": frames.from_rotation_vector([tilt, 0.0, 0.0]),
        "linear_velocity": np.array([vx, 0.0, 0.0]),
        "angular_velocity": np.zeros(3),
    }


AIR, GROUND = signals(), signals(z=0.0)
INVALID = {**AIR, "position": np.full(3, np.nan)}


def checked(robot: Quadrotor) -> Callable[[World, np.ndarray], None]:
    low, high = map(np.array, command_range(robot, command_of(robot).name))

    def check(world: World, command: np.ndarray) -> None:
        assert (command >= low).all() and (command <= high).all()

    return check


def events(hover: np.ndarray) -> dict[str, Callable[[World], None]]:
    flown = {
        "flown": (0.03, AIR, hover),
        "flown for long": (0.1, AIR, hover),
        "alone in the air": (0.35, AIR, None),
        "on the ground": (0.03, GROUND, hover),
        "on the ground for long": (1.1, GROUND, None),
        "near the fence": (0.03, signals(x=2.8, vx=0.9), hover),
        "near the fence for long": (0.35, signals(x=2.8, vx=0.9), hover),
        "outside": (0.03, signals(x=3.3), hover),
        "far too fast": (0.03, signals(vx=3.9), hover),
        "on its back": (0.15, signals(tilt=3.0), hover),
        "invalid": (0.03, INVALID, hover),
        "invalid for long": (0.4, INVALID, hover),
        "silence": (0.03, None, None),
        "silence for long": (0.25, None, None),
        "not a number": (0.01, AIR, np.full(4, np.nan)),
        "of another robot": (0.01, AIR, np.ones(8)),
        "beyond its range": (0.01, AIR, np.array([1e9, -1e9, 0.0, 1e9])),
    }
    made = {name: lambda world, what=what: run(world, *what) for name, what in flown.items()}
    jumps = {
        "clock jumped in the air": lambda world: run(world, 0.01, AIR, hover, restarted=True),
        "clock jumped on the ground": lambda world: run(world, 0.01, GROUND, hover, restarted=True),
        "clock jumped unseen": lambda world: run(world, 0.01, INVALID, hover, restarted=True),
    }

    def battery_near_the_fence(world: World) -> None:
        for seconds in (0.11, 0.01):
            world.do(lambda guard: guard.on_battery(world.t, 0.05, np.nan))
            run(world, seconds, signals(x=2.8, vx=0.9), hover)

    jumps["the battery is empty near the fence"] = battery_near_the_fence
    return {**made, **jumps, **requests(AIR, hover)}


@pytest.mark.parametrize("robot", [CRAZYFLIE, BY_RATES], ids=lambda robot: robot.name)
def test_every_reachable_state_is_safe_and_makes_only_the_declared_changes_of_mode(robot: Quadrotor) -> None:
    lax = {"jump_m": 1e3, "jump_rad": 10.0, "jump_m_s": 1e3, "frozen_observations": 0}
    soon = {"hover_before_landing_s": 0.3, "recover_after_s": 0.05, "tumble_s": 0.1, "battery_confirm_s": 0.1}
    fast = {"takeoff_speed_m_s": 10.0, "landing_speed_m_s": 3.0, "turn_backs": 1}
    guard = QuadrotorGuard(robot, QuadrotorGuardConfig.from_robot(robot, **lax, **soon, **fast, **FENCE))
    world = World(guard, checked(robot), lambda guard: len(guard._turned_back_t))
    assert explore(world, events(robot.hover_command)) == declared(guard)
