#!/usr/bin/env python3
"""Fly a policy from every goal on a 1 m grid inside the guard's fence to every other, with the real guard in lock step.

Every flight hovers for a second at its first goal; then the goal steps to the second one. All fly together in the
batch simulator with the robot file's noise, each behind a guard of its own. Goals are the grid's points at least half
a metre inside the fence and above the floor. A flight fails if the guard ends it, or if it is farther than 0.2 m from
the goal at the end; a flight that is turned back near a limit goes on, and is counted. Greatest speed and tilt are
shares of the guard's limits.

    python benchmarks/goal_grid.py runs/quadrotor_hover/policy.onnx [--robot crazyflie] [--flights 500] [--json FILE]

With --flights a sample of the pairs is drawn: a fence of 16 m has a million. --interrupted N flies N further flights
whose goal steps to a third point after a random time on the way. With --delay-ms observations are that late, for the
policy and for its guard, which accepts it as for a policy that is proven for it.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.guard.decision import CommonMode
from rlstack.kinds.quadrotor.guard import QuadrotorGuard, QuadrotorMode
from rlstack.kinds.quadrotor.guard_config import QuadrotorGuardConfig
from rlstack.kinds.quadrotor.simulation_vector import quadrotor_vector
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.sim.sensing.noise import SensorNoise
from rlstack.sim.vector import BATCH
from rlstack.verification.flight_trials import FlightNormals

MARGIN_M, LOWEST_M = 0.5, 0.5
"""Distance of goals from the fence, and least height above the floor."""

SETTLED_S, NEAR_M = 1.0, 0.2
SEED = 7


def grid(config: QuadrotorGuardConfig) -> Array:
    """Return the points (N, 3) m of the 1 m grid inside the fence."""
    low, high = np.array(config.geofence_min_m) + MARGIN_M, np.array(config.geofence_max_m) - MARGIN_M
    low[2] = max(low[2], config.floor_m + LOWEST_M)
    axes = [np.arange(np.ceil(a), np.floor(b) + 1) for a, b in zip(low, high)]
    return np.array(list(itertools.product(*axes)))


def duration_s(robot: Quadrotor, config: QuadrotorGuardConfig) -> float:
    """Return how long a flight takes at half of the speed limit across the fence, and 4 s more."""
    across = float(np.linalg.norm(np.subtract(config.geofence_max_m, config.geofence_min_m)))
    return SETTLED_S + across / (0.5 * robot.limits.linear_velocity_m_s) + 4.0


def fly(
    policy: Any, robot: Quadrotor, goals: Sequence[Array], switch_s: Sequence[Array], seconds: float, delay_s: float = 0
) -> dict[str, Any]:
    """Fly N flights from the first of their goals (N, 3) each; goal ``k + 1`` holds from ``switch_s[k]`` (N,) on.

    Observations arrive ``delay_s`` after their stamps; until the first does, the rotors turn at hover speed.

    Returns:
        Arrays (N,): ``reason`` why the guard ended the flight or an empty string, ``turned_back`` how often it turned
        it back, ``speed`` and ``tilt`` as shares of the limits, ``error_m`` at the end.
    """
    count, rate = len(goals[0]), policy.contract.rate_hz
    config = dataclasses.replace(QuadrotorGuardConfig.from_robot(robot), observation_delay_s=delay_s)
    late = round(delay_s * rate)
    arriving: deque[dict[str, Array]] = deque(maxlen=late + 1)
    robots = quadrotor_vector(BATCH, robot, count, rate)
    guards = [QuadrotorGuard(robot, config) for _ in range(count)]
    noise = SensorNoise(robot, SEED, FlightNormals(SEED, range(count)))
    still, upright = np.zeros((count, 3)), np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    state = {"position": goals[0], "orientation": upright, "linear_velocity": still, "angular_velocity": still}
    robots.set_state({**state, "rotor_speed": np.full((count, len(robot.rotors)), robot.hover_speed_rad_s)})
    names = [port.name for port in policy.contract.inputs]
    reason = np.full(count, "", dtype=object)
    speed, tilt = np.zeros(count), np.zeros(count)
    policy.reset(count)
    try:
        for k in range(round(seconds * rate)):
            t = k / rate
            true = robots.state()
            speed = np.fmax(speed, np.linalg.norm(true["linear_velocity"], axis=1))
            tilt = np.fmax(tilt, frames.tilt(true["orientation"]))
            body = frames.rotate_inverse(true["orientation"], true["linear_velocity"])
            arriving.append(noise.applied({**true, "linear_velocity": body}, t))
            if k < late:
                robots.step(np.full((count, len(robot.rotors)), robot.hover_speed_rad_s))
                continue
            seen, stamp = arriving[0], (k - late) / rate
            goal = goals[0]
            for later, at in zip(goals[1:], switch_s):
                goal = np.where((t >= at)[:, None], later, goal)
            known = {**seen, **goal_inputs(goal)}
            wanted = next(iter(policy.step({name: known[name] for name in names}).values()))
            applied = np.array(wanted, dtype=float)
            for n, guard in enumerate(guards):
                if reason[n]:
                    continue
                decision = guard.on_observation(t, stamp, {name: seen[name][n] for name in state})
                if k == late:
                    guard.arm(t)
                commanding = guard.mode is CommonMode.POLICY
                answer = guard.on_policy_command(t, stamp, wanted[n])
                decision = answer if commanding else decision
                if guard.mode not in (CommonMode.POLICY, QuadrotorMode.RETURN):
                    reason[n] = guard.reason
                elif decision.command is not None:
                    applied[n] = decision.command
            robots.step(applied)
        error = np.linalg.norm(robots.state()["position"] - goal, axis=1)
    finally:
        robots.close()
    limits = robot.limits
    shares = {"speed": speed / limits.linear_velocity_m_s, "tilt": tilt / limits.tilt_rad}
    turned = np.array([guard.interventions for guard in guards]) - (reason != "")
    return {"reason": reason, "turned_back": turned, "error_m": error, **shares}


def goal_inputs(goal: Array) -> dict[str, Array]:
    """Return the signals of a goal pose, and of a path that rests there."""
    count = len(goal)
    upright = np.tile([0.0, 0.0, 0.0, 1.0], (count, 1))
    return {
        "goal_position": goal,
        "goal_orientation": upright,
        "path_time": np.tile([0.0, 60.0], (count, 1)),
        "path_position": np.repeat(goal[:, None], 2, axis=1),
        "path_orientation": np.repeat(upright[:, None], 2, axis=1),
    }


def summary(flown: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of flights, and the reasons why the guard ended some."""
    reasons = [str(reason) for reason in flown["reason"] if reason]
    mine = np.array([not reason for reason in flown["reason"]])
    return {
        "flights": len(mine),
        "ended": len(reasons),
        "turned_back": int((flown["turned_back"] > 0).sum()),
        "not_there": int((flown["error_m"][mine] > NEAR_M).sum()),
        "speed": float(flown["speed"].max()),
        "tilt": float(flown["tilt"].max()),
        "reasons": reasons[:5],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+")
    parser.add_argument("--robot", default="crazyflie")
    parser.add_argument("--flights", type=int, default=0, help="a sample of the pairs; 0: all")
    parser.add_argument("--interrupted", type=int, default=500)
    parser.add_argument("--delay-ms", type=float, default=0.0, help="age of observations on arrival")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    robot = load_quadrotor(options.robot)
    config = QuadrotorGuardConfig.from_robot(robot)
    points, rng = grid(config), np.random.default_rng(SEED)
    total = len(points) * (len(points) - 1)
    chosen = np.arange(total) if not options.flights else rng.choice(total, min(options.flights, total), replace=False)
    first, second = np.divmod(chosen, len(points) - 1)
    second = second + (second >= first)
    seconds, found = duration_s(robot, config), {}
    delay_s = 1e-3 * options.delay_ms
    print(
        f"{robot.name}: {len(points)} goals, {len(chosen):,} of {total:,} pairs, {seconds:.1f} s each,"
        f" observations {options.delay_ms:g} ms late"
    )
    for path in options.policies:
        policy = load_policy(path, robot=robot)
        settled = np.full(len(chosen), SETTLED_S)
        rows = {
            "goal to goal": summary(fly(policy, robot, [points[first], points[second]], [settled], seconds, delay_s))
        }
        if count := options.interrupted:
            three = [points[rng.integers(len(points), size=count)] for _ in range(3)]
            switches = [np.full(count, SETTLED_S), SETTLED_S + rng.uniform(0.1, 3.0, count)]
            rows["goal steps in flight"] = summary(fly(policy, robot, three, switches, seconds, delay_s))
        found[str(path)] = rows
        print(path)
        for name, row in rows.items():
            ended, turned_back = f"{row['ended']:>5} ended by the guard", f"{row['turned_back']:>5} turned back"
            shares = f"speed {row['speed']:.0%}, tilt {row['tilt']:.0%} of the limit"
            flights = f"{row['flights']:>6} flights{ended}{turned_back}{row['not_there']:>5} not there"
            print(f"  {name:22}{flights}   {shares}")
            for reason in row["reasons"]:
                print(f"    {reason}")
    if options.json:
        options.json.write_text(
            json.dumps({"robot": robot.name, "delay_ms": options.delay_ms, "found": found}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
