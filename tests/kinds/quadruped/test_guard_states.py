"""Every state that a quadruped's guard can reach."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlstack.kinds.quadruped.guard import QuadrupedGuard
from rlstack.kinds.quadruped.guard_config import QuadrupedGuardConfig
from rlstack.robots import frames
from tests.kinds.quadruped.test_guard import go1
from tests.support.guard_states import World, declared, explore, requests, run

ROBOT = go1()
STANDING = np.array(ROBOT.standing)
LOWER, UPPER = (np.array([getattr(drive, side) for drive in ROBOT.drives]) for side in ("lower", "upper"))


def seen(tilt: float = 0.0) -> dict[str, np.ndarray]:
    turn = frames.from_rotation_vector(np.array([tilt, 0.0, 0.0]))
    return {
        "position": np.zeros(3),
        "orientation": turn,
        "linear_velocity": np.zeros(3),
        "angular_velocity": np.zeros(3),
    }


UPRIGHT, TILTED, FALLEN = seen(), seen(0.9), seen(2.5)
INVALID = {**UPRIGHT, "position": np.full(3, np.nan)}


def check(world: World, command: np.ndarray) -> None:
    assert (command >= LOWER - 1e-9).all() and (command <= UPPER + 1e-9).all()


def folded(world: World) -> None:
    """Observe legs in another posture, so that arming begins by rising."""
    run(world, 0.04, UPRIGHT, None)
    world.do(lambda guard: guard.on_joints(world.t, np.clip(STANDING - 0.6, LOWER, UPPER)))
    world.do(lambda guard: guard.arm(world.t))


def events() -> dict[str, Any]:
    walked = {
        "observed": (0.04, UPRIGHT, None),
        "walked": (0.04, UPRIGHT, STANDING),
        "walked for long": (0.4, UPRIGHT, STANDING),
        "alone": (0.2, UPRIGHT, None),
        "alone for long": (1.5, UPRIGHT, None),
        "tilted": (0.04, TILTED, STANDING),
        "fallen": (0.1, FALLEN, STANDING),
        "invalid": (0.04, INVALID, STANDING),
        "invalid for long": (0.4, INVALID, STANDING),
        "silence": (0.3, None, None),
        "silence for long": (1.5, None, None),
        "not a number": (0.04, UPRIGHT, np.full(12, np.nan)),
        "of another robot": (0.04, UPRIGHT, np.ones(4)),
        "beyond the ranges": (0.04, UPRIGHT, STANDING + 1e6),
    }
    made = {name: lambda world, what=what: run(world, *what) for name, what in walked.items()}
    return {
        **made,
        "clock jumped": lambda world: run(world, 0.04, UPRIGHT, STANDING, restarted=True),
        "armed folded": folded,
        **requests(UPRIGHT, STANDING),
    }


def test_every_reachable_state_is_safe_and_makes_only_the_declared_changes_of_mode() -> None:
    soon = {"recover_after_s": 0.2, "stand_before_crouching_s": 0.3, "battery_confirm_s": 0.1}
    fast = {"posture_speed_rad_s": 20.0}
    guard = QuadrupedGuard(ROBOT, QuadrupedGuardConfig.from_robot(ROBOT, **soon, **fast))

    def joints(guard: QuadrupedGuard, t: float) -> None:
        guard.on_joints(t, guard._limiter.sent if guard.mode.role != "off" else STANDING)

    world = World(guard, check, beside=joints)
    assert explore(world, events()) == declared(guard)
