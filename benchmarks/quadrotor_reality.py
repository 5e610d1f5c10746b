#!/usr/bin/env python3
"""Fly policy files from held-out starts of quadrotor_hover while delays, rate, noise, mass, inertia and motors depart.

A robot with a rate loop, for policies of quadrotor_rates, departs in its loop and its thrust, too.

The starts are neither those that training drew nor those that its best policy was chosen on; they have the task's noise
and disturbances. Every row departs in one thing, the last in four together; the policy is told nothing. Columns:

- within 0.1 m: share of flights that are never farther from the goal from second 3 to second 8
- lost: share that are ever farther than 2 m
- error: median over flights of the mean distance from second 3 to second 8
- yaw: median over flights of the mean heading error over the same time
- speed: 99th percentile over flights of the greatest speed

Oscillation is the mean over rotors, or over rates and thrust, of the standard deviation of the command from second 4 to
second 8, of flights without disturbance and noise, as a share of its range; the largest of the flights is given, too.

    python benchmarks/quadrotor_reality.py runs/*/policy.onnx [--controllers] [--episodes 1000] [--json FILE]

With --controllers the classical controllers fly the same starts.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.interfaces.kind_signals import command_of, command_range
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.kinds.quadrotor.verification_reality import flight_axes
from rlstack.policies import load_policy
from rlstack.robots import frames
from rlstack.tasks.catalog.quadrotor_hover import HoverTask
from rlstack.verification.flight_baselines import baselines
from rlstack.verification.flight_outcome import outcome
from rlstack.verification.flight_trials import rollout
from rlstack.verification.reality import Conditions
from rlstack.verification.trial_records import FlightRecord

SEED = 20_261_121
"""Seed of the starts, apart from those of training and of policy selection."""

ROWS: Mapping[str, tuple[str, float]] = {
    "nominal": ("observation_delay_s", 0.0),
    "observations 10 ms late": ("observation_delay_s", 0.01),
    "observations 20 ms late": ("observation_delay_s", 0.02),
    "observations 30 ms late": ("observation_delay_s", 0.03),
    "commands 20 ms late": ("command_delay_s", 0.02),
    "noise x3": ("noise_scale", 3.0),
    "mass +30%": ("mass_scale", 1.3),
    "mass -30%": ("mass_scale_low", 0.7),
    "inertia x2": ("inertia_scale", 2.0),
    "inertia x0.5": ("inertia_scale_low", 0.5),
    "motor lag x2": ("motor_lag_scale", 2.0),
    "motor lag x0.3": ("motor_lag_scale_low", 0.3),
    "50 Hz": ("control_rate_hz", 50.0),
    "together": ("together", 1.0),
}
"""Axis and value of each row; see :mod:`rlstack.kinds.quadrotor.verification_reality`."""

LOOP_ROWS: Mapping[str, tuple[str, float]] = {
    "rate loop x2": ("rate_lag_scale", 2.0),
    "rate loop x0.5": ("rate_lag_scale_low", 0.5),
    "no torque cancelled": ("rate_rejection_scale", 0.0),
    "thrust +20%": ("thrust_scale_high", 1.2),
    "thrust -20%": ("thrust_scale", 0.8),
    "commands 40 ms late": ("command_delay_s", 0.04),
}
"""The same of a robot with a rate loop, besides."""

COLUMNS = {
    "within 0.1 m": ("close", "13.1%"),
    "lost": ("lost", "8.1%"),
    "error mm": ("error_mm", "10.1f"),
    "yaw deg": ("yaw_deg", "9.2f"),
    "speed m/s": ("speed_m_s", "11.2f"),
}
"""Title, key and format of the columns."""


def fly(driver: Any, robot: Quadrotor, conditions: Conditions, noise_seed: int) -> FlightRecord:
    """Fly the trials of conditions."""
    seconds = HoverTask.criteria.duration_s
    return rollout(
        driver, conditions.trials, conditions.robot, seconds, noise_seed=noise_seed, departures=conditions.departures
    )


def figures(flown: FlightRecord) -> dict[str, float]:
    """Return the figures of a row."""
    judged = outcome(flown, HoverTask.criteria)
    window = flown.time_s >= HoverTask.criteria.from_s
    yaw = np.abs(frames.yaw(flown.orientation[window])).mean(axis=0)
    speed = np.linalg.norm(flown.linear_velocity, axis=2).max(axis=0)
    return {
        "close": float(judged.close.mean()),
        "lost": float(judged.lost.mean()),
        "error_mm": 1e3 * float(np.nanmedian(judged.error_m)),
        "yaw_deg": float(np.rad2deg(np.nanmedian(yaw))),
        "speed_m_s": float(np.nanquantile(speed, 0.99)),
    }


def oscillation(driver: Any, robot: Quadrotor, episodes: int) -> dict[str, float]:
    """Return mean and largest oscillation of the commands, as shares of the range, without disturbance and noise."""
    still = replace(robot, sensors={})
    starts = HoverTask().held_out(np.random.default_rng(SEED), episodes, robot, disturbances=False)
    calm = replace(starts, perturbation=type(starts.perturbation).none(episodes, len(robot.rotors)))
    flown = rollout(driver, calm, still, HoverTask.criteria.duration_s)
    low, high = map(np.array, command_range(robot, command_of(robot).name))
    commands = np.clip(flown.command[flown.time_s >= 4.0], low, high)
    share = (commands.std(axis=0) / (high - low)).mean(axis=1)
    return {"oscillation": float(share.mean()), "largest_oscillation": float(share.max())}


def measure(driver: Any, robot: Quadrotor, episodes: int, seed: int = SEED) -> dict[str, Any]:
    """Return the figures of every row, and the oscillation."""
    axes = {axis.key: axis for axis in flight_axes(robot, driver.contract.rate_hz)}
    trials = HoverTask().held_out(np.random.default_rng(seed), episodes, robot, disturbances=False)
    nominal = Conditions(trials=trials, robot=robot)
    rows = {}
    for name, (key, value) in {**ROWS, **({} if robot.rate_loop is None else LOOP_ROWS)}.items():
        conditions = nominal if name == "nominal" else axes[key].apply(value, nominal)
        rows[name] = figures(fly(driver, robot, conditions, seed))
    return {"rows": rows, **oscillation(driver, robot, min(episodes, 200))}


def show(name: str, found: Mapping[str, Any]) -> None:
    """Print the table of one policy."""
    print(f"\n{name}\n{'':26}" + "".join(f"{title:>{_width(form)}}" for title, (_, form) in COLUMNS.items()))
    for row, values in found["rows"].items():
        print(f"{row:26}" + "".join(f"{values[key]:{form}}" for key, form in COLUMNS.values()))
    print(
        f"oscillation {found['oscillation']:.2%} of the range, at most {found['largest_oscillation']:.2%}", flush=True
    )


def spread(found: list[dict[str, Any]], pick: Callable[[list[float]], float]) -> dict[str, Any]:
    """Return one figure for each over several policies."""
    rows = {
        row: {key: pick([one["rows"][row][key] for one in found]) for key, _ in COLUMNS.values()}
        for row in found[0]["rows"]
    }
    return {"rows": rows, **{key: pick([one[key] for one in found]) for key in ("oscillation", "largest_oscillation")}}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policies", type=Path, nargs="+")
    parser.add_argument("--controllers", action="store_true")
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--robot", default="crazyflie")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    robot = load_quadrotor(options.robot)
    policies = [load_policy(path) for path in options.policies]
    drivers: dict[str, Any] = {str(path): policy for path, policy in zip(options.policies, policies)}
    found = {}
    for name, driver in drivers.items():
        found[name] = measure(driver, robot, options.episodes)
        show(name, found[name])
    if len(found) > 1:
        ends = {"median": statistics.median, "least": min, "most": max}
        for title, pick in ends.items():
            show(f"{title} of {len(drivers)} policies", spread(list(found.values()), pick))
    if options.controllers:
        for name, controller in baselines(policies[0].contract, robot).items():
            found[name] = measure(controller, robot, options.episodes)
            show(name, found[name])
    if options.json:
        options.json.write_text(json.dumps({"episodes": options.episodes, "found": found}, indent=2) + "\n")


def _width(form: str) -> int:
    return int(form.partition(".")[0])


if __name__ == "__main__":
    main()
