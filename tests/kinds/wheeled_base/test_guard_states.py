"""Every state that a wheeled base's guard can reach, with and without a planner to fall back on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rlstack.control.navigation import PLANNERS
from rlstack.guard import CommonMode
from rlstack.kinds.wheeled_base.guard import WheeledBaseGuard, WheeledBaseMode
from rlstack.kinds.wheeled_base.guard_config import WheeledBaseGuardConfig
from tests.kinds.wheeled_base.guard_loop import signals, turtlebot, wall_scan
from tests.support.guard_states import World, declared, explore, requests, run

ROBOT = turtlebot()
LIDAR = ROBOT.lidars["scan"]
FREE = wall_scan(LIDAR, 0.0, 0.0, 0.0, 1e3)
AHEAD = np.array([0.1, 0.2])
STANDS, ROLLS = signals(), signals(speed=0.1)
INVALID = {**STANDS, "position": np.full(3, np.nan)}


def check(world: World, command: np.ndarray) -> None:
    config = world.guard.config
    assert (
        abs(command[0]) <= config.linear_velocity_m_s + 1e-9 and abs(command[1]) <= config.angular_velocity_rad_s + 1e-9
    )


def scanned(guard: WheeledBaseGuard, t: float) -> Any:
    guard.on_signals({"goal_position": np.array([2.0, 0.0, 0.0])})
    return guard.on_scan(t, t, FREE)


def blind(world: World) -> None:
    beside, world.beside = world.beside, lambda guard, t: None
    run(world, world.guard.config.scan_timeout_s + 0.1, STANDS, AHEAD)
    world.beside = beside


def events() -> dict[str, Any]:
    driven = {
        "observed": (0.05, STANDS, None),
        "driven": (0.1, STANDS, AHEAD),
        "driven for long": (0.5, STANDS, AHEAD),
        "alone": (0.5, STANDS, None),
        "alone for long": (1.3, STANDS, None),
        "alone rolling": (0.4, ROLLS, None),
        "far too fast": (0.1, signals(speed=2.0), AHEAD),
        "tilted": (0.1, signals(tilt=0.6), AHEAD),
        "elsewhere": (0.1, signals(x=30.0), AHEAD),
        "invalid": (0.05, INVALID, AHEAD),
        "invalid for long": (0.4, INVALID, AHEAD),
        "silence for long": (1.3, None, None),
        "not a number": (0.05, STANDS, np.full(2, np.nan)),
        "of another robot": (0.05, STANDS, np.ones(4)),
        "beyond the limits": (0.05, STANDS, np.array([1e9, -1e9])),
    }
    made = {name: lambda world, what=what: run(world, *what) for name, what in driven.items()}
    return {
        **made,
        "clock jumped": lambda world: run(world, 0.05, STANDS, AHEAD, restarted=True),
        "no scan": blind,
        **requests(STANDS, AHEAD),
    }


@pytest.mark.parametrize("planner", ["", "dwa"])
def test_every_reachable_state_is_safe_and_makes_only_the_declared_changes_of_mode(planner: str) -> None:
    soon = {"recover_after_s": 0.2, "stand_before_disarming_s": 0.6, "battery_confirm_s": 0.1}
    config = WheeledBaseGuardConfig.from_robot(ROBOT, **soon)
    guard = WheeledBaseGuard(ROBOT, config, PLANNERS.load(planner)(ROBOT) if planner else None)
    world = World(
        guard, check, lambda guard: (guard._limiter.stopped, guard._scan_late(guard._clock.elapsed_s)), scanned
    )
    without = {(a, b) for a, b in declared(guard) if WheeledBaseMode.FALLBACK not in (a, b)}
    found = explore(world, events())
    if planner:
        assert found <= declared(guard) and (CommonMode.POLICY, WheeledBaseMode.FALLBACK) in found
        assert {(a, b) for a, b in declared(guard) if WheeledBaseMode.FALLBACK in (a, b)} <= found
    else:
        assert found == without
