"""Every state that an arm's guard can reach."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.manipulator.guard import ManipulatorGuard
from rlstack.kinds.manipulator.guard_config import ManipulatorGuardConfig
from tests.kinds.manipulator.guard_loop import panda
from tests.support.guard_states import World, declared, explore, requests, run

ROBOT = panda()
REST = np.array([drive.rest for drive in ROBOT.drives])
LOWER, UPPER = (np.array([getattr(drive, side) for drive in ROBOT.drives]) for side in ("lower", "upper"))
AWAY = REST + np.eye(len(REST))[0] * 0.02


def seen(position: np.ndarray = REST, speed: float = 0.0) -> dict[str, np.ndarray]:
    return {"joint_position": position.copy(), "joint_velocity": np.full(len(REST), speed)}


AT_REST = seen()
INVALID = seen(np.full(len(REST), np.nan))


def check(world: World, command: np.ndarray) -> None:
    assert (command >= LOWER - 1e-9).all() and (command <= UPPER + 1e-9).all()


def events() -> dict[str, Any]:
    moved = {
        "observed": (0.05, AT_REST, None),
        "moved": (0.05, AT_REST, AWAY),
        "moved for long": (0.3, AT_REST, AWAY),
        "alone": (0.2, AT_REST, None),
        "alone for long": (0.6, AT_REST, None),
        "far too fast": (0.05, seen(speed=50.0), AWAY),
        "elsewhere": (0.05, seen(REST + 0.5), AWAY),
        "invalid": (0.05, INVALID, AWAY),
        "invalid for long": (0.4, INVALID, AWAY),
        "silence": (0.3, None, None),
        "silence for long": (0.8, None, None),
        "not a number": (0.05, AT_REST, np.full(len(REST), np.nan)),
        "of another robot": (0.05, AT_REST, np.ones(3)),
        "beyond the ranges": (0.05, AT_REST, REST + 1e6),
    }
    made = {name: lambda world, what=what: run(world, *what) for name, what in moved.items()}
    jumped = {
        "clock jumped": lambda world: run(world, 0.05, AT_REST, AWAY, restarted=True),
        "reset elsewhere": lambda world: run(world, 0.05, seen(REST + 0.5), AWAY, restarted=True),
    }
    return {**made, **jumped, **requests(AT_REST, AWAY)}


def test_every_reachable_state_is_safe_and_makes_only_the_declared_changes_of_mode() -> None:
    soon = {"recover_after_s": 0.2, "hold_before_parking_s": 0.5, "battery_confirm_s": 0.1, "parking_speed": 0.001}
    guard = ManipulatorGuard(ROBOT, ManipulatorGuardConfig.from_robot(ROBOT, **soon))
    world = World(guard, check, lambda guard: bool(np.abs(guard._limiter.sent - REST).max() > 1e-6))
    assert explore(world, events()) == declared(guard)
