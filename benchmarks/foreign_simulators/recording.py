"""A flight that is recorded in any simulator of quadrotors, by the policy of many vehicles or by the robot's own one.

The former is told this vehicle's rotors, and stands for an autopilot that flies the robot already. What is kept is what
a robot's bag has: the commanded rotor speeds, in the order of a robot file, those that an ESC measures, and odometry
with noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from flights import OURS, Vehicles, commander, motor_order, sensed, turn
from policy_file import PolicyFile

LEAST_HEIGHT_M, LOST_RAD = 0.1, 1.5
"""Below and beyond which a flight is lost."""


def record(policy: PolicyFile, vehicles: Vehicles, job: Mapping[str, Any]) -> dict[str, Any]:
    """Fly one vehicle to goals that step; return signals by name, and when it was lost (None: it was not).

    Args:
        policy: quadrotor_foundation or quadrotor_hover.
        vehicles: One vehicle.
        job: ``robot`` and ``noise`` as of :func:`flights.fly`, ``goals`` as rows of time s, x, y, z m and yaw rad, and
            ``seconds``.
    """
    robot, rate, goals = job["robot"], policy.rate_hz, np.array(job["goals"])
    order = motor_order(np.asarray(vehicles.rotor_position), np.asarray(vehicles.rotor_yaw_sign), robot)
    own = np.argsort(order)
    low, high = (np.reshape(end, (1, -1)) for end in vehicles.speed_range)
    told = {
        "rotor_position": np.asarray(vehicles.rotor_position)[None],
        "rotor_yaw_sign": np.asarray(vehicles.rotor_yaw_sign)[None],
        "rotor_thrust_coefficients": np.asarray(vehicles.thrust)[None],
        "rotor_speed_min": low,
        "rotor_speed_max": high,
    }
    command = commander(policy, vehicles, OURS, robot)
    start = {name: np.array(array) for name, array in job["starts"].items()}
    policy.reset(1)
    vehicles.reset(start)
    rng, rows, lost_s = np.random.default_rng(job["seed"]), [], None
    for k in range(round(job["seconds"] * rate)):
        x, y, z, yaw = goals[max(int(np.searchsorted(goals[:, 0], k / rate, side="right")) - 1, 0), 1:]
        seen = sensed(vehicles.state(), job["noise"], rng)
        aim = {
            "path_position": np.tile([x, y, z], (1, 2, 1)),
            "path_orientation": np.tile(turn(yaw), (1, 2, 1)),
            "path_time": np.array([[0.0, 1.0]]),
            "goal_position": np.array([[x, y, z]]),
            "goal_orientation": turn(yaw)[None],
        }
        sent = command(policy.step({**told, **aim, **seen})["rotor_speed"])
        rows.append({**seen, "rotor_speed": sent[:, own], "measured_rotor_speed": vehicles.turning()[:, own]})
        upright = 1.0 - 2.0 * float((seen["orientation"][0, :2] ** 2).sum())
        if seen["position"][0, 2] < LEAST_HEIGHT_M or upright < np.cos(LOST_RAD):
            lost_s = k / rate
            break
        vehicles.step(sent)
    found = {name: np.concatenate([row[name] for row in rows]).tolist() for name in rows[0]}
    return {"period_s": 1.0 / rate, "lost_s": lost_s, "signals": found}
