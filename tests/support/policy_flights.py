"""What onnxruntime commands along random walks of a policy's inputs, for comparison with the policy in other forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlstack.policies import load_policy
from rlstack.policies.contract import Contract, Port
from rlstack.robots import RobotSpec, load_robot

POINTS = 4
RELEASED = (
    "arm_pick_place",
    "arm_reach",
    "base_navigation",
    "quadrotor_foundation",
    "quadrotor_hover",
    "quadrotor_rates",
)
_SPREAD = {"joint_position": 0.5, "position": 1.0, "object_position": 0.3, "path_position": 1.0}
"""Of random walks, in SI units; 0.3 elsewhere."""


@dataclass(frozen=True)
class Flight:
    """Inputs and commands of a policy, step by step."""

    contract: Contract
    """With fixed sizes."""
    walks: Mapping[str, NDArray[Any]]
    """Inputs by name, (steps, \\*shape)."""
    inputs: NDArray[np.float32]
    """The same as the struct of inputs has them: (steps, size)."""
    starts: tuple[int, ...]
    """Steps before which the policy starts anew."""
    commands: NDArray[Any]
    """Of onnxruntime, (steps, size)."""

    @property
    def range(self) -> NDArray[Any]:
        """What a command can range over: (size,)."""
        low, high = self.contract.outputs[0].limits
        return np.asarray(high - low).reshape(-1)

    def error(self, commands: NDArray[Any]) -> float:
        """Return the greatest difference to onnxruntime's commands, of the range."""
        return float((np.abs(commands - self.commands) / self.range).max())

    def steps(self) -> Iterator[tuple[bool, dict[str, NDArray[Any]]]]:
        """Yield whether the policy starts anew, and the inputs by name, for each step."""
        for number in range(len(self.inputs)):
            yield number in self.starts, {name: values[number] for name, values in self.walks.items()}


def choices(name: str) -> dict[str, Any]:
    """Return the robot and the sizes that a released policy needs to be written as C."""
    if name == "quadrotor_foundation":
        return {"robot": load_robot("crazyflie"), "sizes": {"points": POINTS}}
    return {"robot": None, "sizes": {}}


def fly(path: str | Path, *, robot: RobotSpec | None, sizes: Mapping[str, int], steps: int = 1_000) -> Flight:
    """Return the flight of a policy, which starts anew after 0.7 of the steps."""
    policy = load_policy(path, robot=robot)
    contract = policy.contract
    fixed = replace(contract, inputs=tuple(replace(p, shape=p.sized(sizes)) for p in contract.inputs))
    random = np.random.default_rng(3)
    walks = {port.name: walk(port, steps, random) for port in fixed.inputs}
    flown = Flight(
        contract=fixed,
        walks=walks,
        inputs=np.concatenate([values.reshape(steps, -1) for values in walks.values()], axis=1).astype(np.float32),
        starts=(0, 7 * steps // 10),
        commands=np.empty((0,)),
    )
    commands = []
    for anew, inputs in flown.steps():
        if anew:
            policy.reset()
        commands.append(policy.step(inputs)[contract.outputs[0].name].reshape(-1))
    return replace(flown, commands=np.stack(commands))


def walk(port: Port, steps: int, random: np.random.Generator) -> NDArray[Any]:
    """Return a smooth sequence of an input's values: slow sines of random phase, valid as quaternions and scans."""
    shape = port.sized({})
    time = np.arange(steps).reshape(-1, *(1,) * len(shape)) / 50.0
    waves = np.sin(random.uniform(0.5, 4.0, shape) * time + random.uniform(0.0, 6.0, shape))
    if port.unit == "quaternion xyzw":
        value = 0.3 * waves + np.array([0.0, 0.0, 0.0, 1.0])
        return np.asarray(value / np.linalg.norm(value, axis=-1, keepdims=True))
    if port.scan is not None:
        return np.asarray(0.5 * port.scan.range_max_m * (1.01 + waves))
    if port.name == "path_time":
        return np.broadcast_to(np.arange(float(shape[0])) - 0.5, (steps, *shape)) + 0.3 * time
    return np.asarray(_SPREAD.get(port.name, 0.3) * waves)
