"""Mappings and recordings for policies of other libraries, flown beside the libraries' own answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import yaml

from rlstack.cli import main
from rlstack.importers.policy import TOLERANCE
from rlstack.policies import load_policy
from rlstack.robots import frames, load_robot

OBSERVATION: list[Any] = [
    {"signal": "goal_position", "relative_to": "position", "frame": "base_link", "scale": 0.5},
    {"signal": "orientation", "form": "quaternion_wxyz"},
    "linear_velocity",
    {"signal": "angular_velocity", "scale": [0.1, -0.1, -0.1], "clip": [-5.0, 5.0]},
    "previous_action",
]
SIZE = 3 + 4 + 3 + 3 + 4


def mapping(folder: Path, **changes: Any) -> Path:
    """Write the mapping of a quadrotor's policy with 17 observations and 4 actions."""
    data: dict[str, Any] = {
        "task": "quadrotor_hover",
        "rate_hz": 100,
        "observation": OBSERVATION,
        "action": {"signal": "rotor_speed", "names": rotors(), "to_limits": True},
        "network": {"activation": "elu"},
        **changes,
    }
    path = folder / "mapping.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def rotors() -> list[str]:
    """Return the Crazyflie's rotors, in another order than the robot file's."""
    from rlstack.interfaces.kind_signals import element_names

    return list(reversed(element_names(load_robot("crazyflie"))["rotors"]))


def observed(row: dict[str, np.ndarray], previous: np.ndarray) -> np.ndarray:
    """Return the observation of one robot, in numpy, as its trainer would have made it."""
    q = row["orientation"]
    return np.concatenate(
        (
            0.5 * frames.rotate_inverse(q, row["goal_position"] - row["position"]),
            q[[3, 0, 1, 2]],
            row["linear_velocity"],
            np.clip(row["angular_velocity"] * [0.1, -0.1, -0.1], -5.0, 5.0),
            previous,
        )
    )


def drawn(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return random inputs of one robot."""
    names = ("goal_position", "position", "linear_velocity", "angular_velocity")
    return {n: rng.normal(0.0, 0.5, 3) for n in names} | {"orientation": frames.normalise(rng.normal(size=4))}


def fly(folder: Path, source: str, file: Path, own: Any, steps: int = 100, order: Any = None, **changes: Any) -> None:
    """Import a file, and compare its steps with the library's own forward, with the recording as proof.

    ``order`` holds the indices of :func:`observed` in the network's order; ``changes`` go into the mapping.
    """
    out, rng = folder / "policy.onnx", np.random.default_rng(1)
    chosen = mapping(folder, **changes)
    rows, observations, actions = [drawn(rng) for _ in range(steps)], [], []
    previous = np.zeros(4)
    for row in rows:
        observations.append(observed(row, previous)[slice(None) if order is None else order])
        actions.append(own(observations[-1]))
        previous = np.clip(actions[-1], -1.0, 1.0)
    recording: dict[str, Any] = {n: np.stack([row[n] for row in rows]) for n in rows[0]}
    np.savez(folder / "obs.npz", **recording, observation=observations, action=actions)
    words = ["import", "--from", source, str(file), "--map", str(chosen), "--robot", "crazyflie", "--out", str(out)]
    assert main([*words, "--recorded", str(folder / "obs.npz")]) == 0
    policy = load_policy(out, robot=load_robot("crazyflie"))
    policy.reset()
    low, high = policy.contract.outputs[0].limits
    order = [policy.contract.outputs[0].element_names.index(n) for n in rotors()]
    worst = 0.0
    for row, action in zip(rows, actions):
        wanted = np.empty(4)
        wanted[order] = low[order] + (np.clip(action, -1.0, 1.0) + 1.0) / 2.0 * (high - low)[order]
        worst = max(worst, float(np.max(np.abs(policy.step(row)["rotor_speed"] - wanted) / (high - low))))
    assert worst < TOLERANCE
