"""The hover task's held-out flights in any simulator of quadrotors: what the policy is told, and how flights count.

Everything here is in the policy file's conventions: ``odom`` is east-north-up (x, y, z up), ``base_link`` is
forward-left-up, quaternions are xyzw and turn ``base_link`` into ``odom``, both velocities are in ``base_link`` as in
nav_msgs/Odometry, commands are rotor speeds in rad/s. A simulator's own conventions end in its :class:`Vehicles`.

The goal is away from the origin and turned, so that a position taken for an error, or a world frame taken for the
body's, shows.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from delays import Delay
from numpy.typing import NDArray
from policy_file import PolicyFile

Array = NDArray[np.float64]

THEIRS, THRUST, FAMILY, OURS = "theirs", "theirs, by thrust", "their family", "ours"
"""A simulator's vehicle as it is, told rotor speeds; the same, told the rotor speeds of its own that give the thrust
which the policy's robot would give (as a driver does on a robot with other propellers); another vehicle of a family
for each flight; and one with the numbers of the policy's robot, and the task's disturbances."""


class Vehicles(Protocol):
    """N quadrotors in somebody's simulator."""

    rotor_position: Array
    """(4, 3) or (N, 4, 3) m, in ``base_link``, in the order in which :meth:`step` takes commands."""
    rotor_yaw_sign: Array
    """(4,) or (N, 4): +1 where the rotor's reaction turns the body to the left."""
    speed_range: tuple[Any, Any]
    """Least and greatest rotor speed, rad/s."""
    thrust: Any
    """(3,) or (N, 3): c0, c1, c2 of a rotor's thrust c0 + c1 w + c2 w^2, N, at w rad/s."""

    def reset(self, starts: Mapping[str, Array]) -> None:
        """Start N flights.

        Args:
            starts: position (N, 3) m in odom; orientation (N, 4) xyzw; linear_velocity (N, 3) m/s in odom;
                angular_velocity (N, 3) rad/s in base_link; rotor_speed (N, 4) rad/s; force_n (N, 3) in odom and
                torque_n_m (N, 3) in base_link, constant over the flight.
        """

    def state(self) -> tuple[Array, Array, Array, Array]:
        """Return position in odom, orientation xyzw, velocity in odom, rates in base_link."""

    def turning(self) -> Array:
        """Return how fast the rotors turn (N, 4), rad/s, in the order of :meth:`step`."""

    def step(self, speed: Array) -> None:
        """Fly one control period with commanded rotor speeds (N, 4), rad/s."""


def multiply(a: Array, b: Array) -> Array:
    """Return the product of quaternions (..., 4) xyzw: first ``b``, then ``a``."""
    u, v, s, t = a[..., :3], b[..., :3], a[..., 3:], b[..., 3:]
    return np.concatenate([s * v + t * u + np.cross(u, v), s * t - (u * v).sum(-1, keepdims=True)], axis=-1)


def into_body(q: Array, vector: Array) -> Array:
    """Return vectors of the world (..., 3) in the body that quaternions (..., 4) xyzw turn into it."""
    axis = -q[..., :3]
    across = 2.0 * np.cross(axis, vector)
    return np.asarray(vector + q[..., 3:] * across + np.cross(axis, across))


def turn(yaw: Any) -> Array:
    """Return the quaternion xyzw of a heading, rad."""
    zero = np.zeros_like(yaw)
    return np.stack([zero, zero, np.sin(np.divide(yaw, 2)), np.cos(np.divide(yaw, 2))], axis=-1)


def sensed(state: tuple[Array, ...], noise: Mapping[str, float], rng: np.random.Generator) -> dict[str, Array]:
    """Return odometry of true states, with the task's noise."""
    position, orientation, velocity, rates = state
    wobble = rng.standard_normal((len(position), 3)) * noise["orientation"] / 2.0
    small = np.concatenate([wobble, np.ones((len(position), 1))], axis=1)
    orientation = orientation / np.linalg.norm(orientation, axis=1, keepdims=True)
    clean = {
        "position": position,
        "linear_velocity": into_body(orientation, velocity),
        "angular_velocity": rates,
    }
    found = {name: array + rng.standard_normal(array.shape) * noise[name] for name, array in clean.items()}
    turned = multiply(orientation, small)
    return {**found, "orientation": turned / np.linalg.norm(turned, axis=1, keepdims=True)}


def motor_order(position: Array, sign: Array, robot: Mapping[str, Any]) -> NDArray[np.intp]:
    """Return for each of a simulator's rotors which of the policy's it is, by quadrant.

    Raises:
        ValueError: They turn the other way there.
    """
    mine = np.array([rotor["position_m"] for rotor in robot["rotors"]])
    signs = np.array([rotor["yaw_torque_sign"] for rotor in robot["rotors"]])
    same = (np.sign(position[:, None, :2]) == np.sign(mine[None, :, :2])).all(axis=2)
    order = same.argmax(axis=1)
    if not (same.sum(axis=1) == 1).all() or (signs[order] != sign).any():
        raise ValueError(f"its rotors at {position.tolist()}, turning {sign.tolist()}, are not those of {robot}")
    return np.asarray(order)


def commander(policy: PolicyFile, vehicles: Vehicles, parameters: str, robot: Mapping[str, Any]) -> Callable:
    """Return what makes of the policy's rotor speeds those that the vehicles take."""
    low, high = vehicles.speed_range
    if policy.contract.get("family"):  # it is told the vehicle's own rotors, in their order
        return lambda speed: np.clip(speed, low, high)
    order = motor_order(np.asarray(vehicles.rotor_position), np.asarray(vehicles.rotor_yaw_sign), robot)
    names = [rotor["name"] for rotor in robot["rotors"]]
    if names != policy.outputs["rotor_speed"]["element_names"]:
        raise ValueError(f"the policy commands {policy.outputs['rotor_speed']['element_names']}, the robot has {names}")
    if parameters != THRUST:
        return lambda speed: np.clip(speed[:, order], low, high)
    (a0, a1, a2), (b0, b1, b2) = robot["thrust_coefficients"], vehicles.thrust

    def by_thrust(speed: Array) -> Array:
        thrust = a0 + a1 * speed + a2 * speed**2
        wanted = (-b1 + np.sqrt(np.maximum(b1**2 + 4.0 * b2 * (thrust - b0), 0.0))) / (2.0 * b2)
        return np.clip(wanted[:, order], low, high)

    return by_thrust


def fly(policy: PolicyFile, vehicles: Vehicles, job: Mapping[str, Any], parameters: str, delay_s: float) -> dict:
    """Fly every start; return the figures."""
    begun = time.process_time()
    robot, criteria = job["robot"], job["criteria"]
    starts = {name: np.array(array) for name, array in job["starts"].items()}
    count, rate = len(starts["position"]), policy.rate_hz
    goal, heading = np.array(job["goal_position"]), turn(np.array(job["goal_yaw"]))
    starts["position"] = starts["position"] + goal
    starts["orientation"] = multiply(np.broadcast_to(heading, (count, 4)), starts["orientation"])
    if parameters != OURS:
        starts["force_n"], starts["torque_n_m"] = np.zeros((count, 3)), np.zeros((count, 3))
    low, high = vehicles.speed_range
    known = {
        "goal_position": np.tile(goal, (count, 1)),
        "goal_orientation": np.tile(heading, (count, 1)),
        # a place to stay at is a path whose poses are the same
        "path_position": np.tile(goal, (count, 2, 1)),
        "path_orientation": np.tile(heading, (count, 2, 1)),
        "rotor_position": np.broadcast_to(vehicles.rotor_position, (count, 4, 3)),
        "rotor_yaw_sign": np.broadcast_to(vehicles.rotor_yaw_sign, (count, 4)),
        "rotor_thrust_coefficients": np.broadcast_to(vehicles.thrust, (count, 3)),
        "rotor_speed_min": np.broadcast_to(np.reshape(low, (-1, 1)), (count, 1)),
        "rotor_speed_max": np.broadcast_to(np.reshape(high, (-1, 1)), (count, 1)),
    }
    command_of = commander(policy, vehicles, parameters, robot)
    rng, late = np.random.default_rng(job["seed"]), Delay(delay_s, 1.0 / rate)
    policy.reset(count)
    vehicles.reset(starts)
    steps = round(criteria["duration_s"] * rate)
    error, yaw_error = np.full((steps, count), np.inf), np.full((steps, count), np.nan)
    state = vehicles.state()
    for k in range(steps):
        seen = late(sensed(state, job["noise"], rng))
        # a vehicle that is lost somewhere far or spinning wildly stays a finite input
        seen = {name: np.nan_to_num(np.clip(array, -1e3, 1e3)) for name, array in seen.items()}
        path_time = np.tile([0.0, 1.0], (count, 1)) - k / rate
        vehicles.step(command_of(policy.step({**known, **seen, "path_time": path_time})["rotor_speed"]))
        state = vehicles.state()
        (x, y, z, w), away = state[1].T, np.linalg.norm(state[0] - goal, axis=1)
        error[k] = np.where(np.isfinite(away), away, np.inf)
        off = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z)) - job["goal_yaw"]
        yaw_error[k] = np.abs((off + np.pi) % (2.0 * np.pi) - np.pi)
    return {
        "parameters": parameters,
        "delay_s": delay_s,
        "cpu_s": time.process_time() - begun,
        **figures(error, yaw_error, criteria, rate),
    }


def figures(error: Array, yaw_error: Array, criteria: Mapping[str, float], rate_hz: float) -> dict[str, float]:
    """Return the figures of flights that were ``error`` (T, N) m from the goal after each period."""
    window = slice(round(criteria["from_s"] * rate_hz) - 1, round(criteria["to_s"] * rate_hz))
    worst = error[window].max(axis=0)
    with np.errstate(invalid="ignore"):
        mean = np.where(np.isfinite(worst), np.nan_to_num(error[window], posinf=1e9).mean(axis=0), np.inf)
    lost = (error > criteria["lost_m"]).any(axis=0)
    return {
        "trials": error.shape[1],
        "success": float(((worst <= criteria["radius_m"]) & ~lost).mean()),
        "within_0_1": float(((worst <= 0.1) & ~lost).mean()),
        "lost": float(lost.mean()),
        "stable": float((error[-round(rate_hz) :].max(axis=0) < 1.0).mean()),
        "error_m": float(np.median(mean)),
        "yaw_error_rad": float(np.nanmedian(np.nan_to_num(yaw_error[window], nan=np.pi).mean(axis=0))),
    }


def main(make: Callable[[str, Mapping[str, Any], float], Vehicles], versions: Callable[[], dict[str, str]]) -> None:
    """Fly what the job asks for and write the figures, or with ``goals`` in the job the recording.

    Args:
        make: Returns the vehicles for parameters, the job and the control rate.
        versions: Returns name and version of what flies.
    """
    parser = argparse.ArgumentParser()
    for name in ("policy", "job", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    chosen = parser.parse_args()
    job, policy = json.loads(chosen.job.read_text()), PolicyFile(chosen.policy)
    rows = []
    for parameters in job["parameters"]:
        if parameters == THRUST and policy.contract.get("family"):
            continue  # it is told the vehicle's own rotors
        if parameters == FAMILY and "family" not in job:
            continue
        vehicles = make(parameters, job, policy.rate_hz)
        if "goals" in job:
            from recording import record  # which is made of this module

            rows.append({"parameters": parameters, **record(policy, vehicles, job)})
            continue
        for delay_s in job["delays_s"]:
            rows.append(fly(policy, vehicles, job, parameters, delay_s))
            print(json.dumps(rows[-1]), flush=True)
    chosen.out.write_text(json.dumps({"versions": versions(), "rows": rows}, indent=1))
