"""Describe a scenario in words, with values from its arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from rlstack.arrays import Array
from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.robots import frames
from rlstack.sim.perturbation import Perturbation
from rlstack.tasks.quadrotor.scenario import Scenario

_SCALES = {
    "mass_scale": "mass",
    "inertia_scale": "inertia",
    "arm_scale": "rotor arms",
    "thrust_scale": "thrust of each rotor",
    "torque_scale": "rotor torque",
    "time_constant_scale": "motor lag",
    "drag_scale": "drag",
    "rate_lag_scale": "lag of the rate loop",
    "rate_rejection_scale": "share of torques that the rate loop cancels",
}


def describe_starts(scenario: Scenario) -> str:
    """Describe the start states by the largest values in the scenario's arrays."""
    state = scenario.state
    goal = "goal" if scenario.path is None else "start of the path"
    return (
        f"up to {_norms(state['position'] - scenario.goal_position).max():.2f} m from the {goal},"
        f" tilted up to {np.degrees(frames.tilt(state['orientation']).max()):.0f} degrees,"
        f" at up to {_norms(state['linear_velocity']).max():.2f} m/s"
        f" and {_norms(state['angular_velocity']).max():.2f} rad/s,"
        f" rotors at {_span(state['rotor_speed'], '{:.0f}')} rad/s"
    )


def describe_paths(scenario: Scenario) -> str:
    """Describe the episodes' paths in a sentence with a leading space; empty without paths."""
    path = scenario.path
    if path is None:
        return ""
    steps = np.diff(path.position, axis=1)
    length = np.linalg.norm(steps, axis=2)
    speed = (length / np.diff(path.time_s, axis=1)).max(axis=1)
    size = path.position.max(axis=1) - path.position.min(axis=1)
    return (
        f" The paths last {_span(path.time_s[:, -1] - path.time_s[:, 0], '{:.1f}')} s, are"
        f" {_span(length.sum(axis=1), '{:.1f}')} m long, at most {' x '.join(f'{s:.1f}' for s in size.max(axis=0))} m"
        f" in size, and reach {_span(speed, '{:.1f}')} m/s."
    )


def describe_disturbances(scenario: Scenario, robot: Quadrotor) -> dict[str, str]:
    """Describe the disturbances of each label of the scenario, in order of first appearance.

    Ranges are those of the arrays: the values flown, not the configured ones.
    """
    described = {}
    for label in dict.fromkeys(scenario.labels.tolist()):
        described[str(label)] = _describe(scenario.perturbation.take(scenario.labels == label), robot)
    return described


def _describe(p: Perturbation, robot: Quadrotor) -> str:
    parts = []
    values: Mapping[str, Array] = vars(p)
    for name, what in _SCALES.items():
        if (values[name] != 1.0).any():
            parts.append(f"{what} {_span(100.0 * (values[name] - 1.0), '{:+.0f}')}% off the robot file")
    if p.force_n.any():
        parts.append(
            f"constant force of {_typical(_norms(p.force_n) * 1e3, 'mN')}"
            f" ({100.0 * _norms(p.force_n).max() / robot.weight_n:.0f}% of the weight)"
        )
    if p.torque_n_m.any():
        parts.append(f"constant torque of {_typical(_norms(p.torque_n_m) * 1e6, 'µN m')}")
    gusty = (p.gust_duration_s > 0.0) & p.gust_force_n.any(axis=1)
    if gusty.any():
        gust = _norms(p.gust_force_n[gusty])
        parts.append(
            f"gust of {_typical(gust * 1e3, 'mN')} ({100.0 * gust.max() / robot.weight_n:.0f}% of the weight)"
            f" starting at {_span(p.gust_start_s[gusty], '{:.1f}')} s"
            f" for {_span(p.gust_duration_s[gusty], '{:.1f}')} s"
        )
    if p.delay_s.any():
        parts.append(f"commands delayed by {_span(1e3 * p.delay_s, '{:.0f}')} ms")
    return "; ".join(parts) or "nothing: the robot exactly as in its file"


def _norms(vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(vectors, axis=1))


def _typical(magnitudes: Array, unit: str) -> str:
    return f"median {np.median(magnitudes):.3g} {unit}, up to {magnitudes.max():.3g} {unit}"


def _span(values: NDArray[np.floating], form: str) -> str:
    low, high = form.format(values.min()), form.format(values.max())
    return low if low == high else f"{low} to {high}"
