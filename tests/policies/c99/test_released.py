"""Released policies as C: the same commands as onnxruntime's over 1,000 steps, compiled without a warning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlstack.errors import UserError
from rlstack.policies import load_policy
from rlstack.policies.c99 import write_c99
from rlstack.policies.contract import Port
from rlstack.robots import load_robot

from ...support.compiled_policy import CompiledPolicy, needs_compiler

POINTS = 4
RELEASED = ("quadrotor_hover", "quadrotor_rates", "arm_reach", "base_navigation", "quadrotor_foundation")
SPREAD = {"joint_position": 0.5, "position": 1.0, "object_position": 0.3, "path_position": 1.0}
"""Of random walks, in SI units; 0.3 elsewhere."""


def walk(port: Port, steps: int, random: np.random.Generator) -> Any:
    """Return a smooth sequence of an input's values: slow sines of random phase, valid as quaternions and scans."""
    shape = port.sized({"points": POINTS})
    time = np.arange(steps).reshape(-1, *(1,) * len(shape)) / 50.0
    waves = np.sin(random.uniform(0.5, 4.0, shape) * time + random.uniform(0.0, 6.0, shape))
    if port.unit == "quaternion xyzw":
        value = 0.3 * waves + np.array([0.0, 0.0, 0.0, 1.0])
        return value / np.linalg.norm(value, axis=-1, keepdims=True)
    if port.scan is not None:
        return 0.5 * port.scan.range_max_m * (1.01 + waves)
    if port.name == "path_time":
        return np.broadcast_to(np.arange(float(POINTS)) - 0.5, (steps, POINTS)) + 0.3 * time
    return SPREAD.get(port.name, 0.3) * waves


@needs_compiler
@pytest.mark.parametrize("name", RELEASED)
def test_a_released_policy_as_c_gives_the_commands_of_onnxruntime(name: str, tmp_path: Path) -> None:
    family = name == "quadrotor_foundation"
    robot = load_robot("crazyflie") if family else None
    sizes = {"points": POINTS} if family else {}
    written = write_c99(name, tmp_path, robot=robot, sizes=sizes)
    policy = load_policy(name, robot=robot)
    contract = policy.contract
    fixed = replace(contract, inputs=tuple(replace(p, shape=p.sized(sizes)) for p in contract.inputs))
    compiled = CompiledPolicy(written, fixed, ("-O0",))
    output = contract.outputs[0]
    low, high = output.limits
    steps = 1_000
    random = np.random.default_rng(3)
    walks = {port.name: walk(port, steps, random) for port in contract.inputs}
    worst, seen = 0.0, []
    for number in range(steps):
        if number == 700:  # a second flight
            policy.reset()
            compiled.reset()
        inputs = {key: value[number] for key, value in walks.items()}
        seen.append(policy.step(inputs)[output.name])
        worst = max(worst, float((np.abs(compiled.step(inputs) - seen[-1]) / (high - low)).max()))
    assert (np.std(seen, axis=0) / (high - low) > 1e-3).all(), "the commands hardly change: the comparison says nothing"
    assert worst < 1e-5


@needs_compiler
def test_a_bad_input_changes_neither_command_nor_state(tmp_path: Path) -> None:
    policy = load_policy("quadrotor_rates")
    compiled = CompiledPolicy(write_c99("quadrotor_rates", tmp_path), policy.contract, ("-O0",))
    random = np.random.default_rng(1)
    good = {port.name: walk(port, 2, random)[1] for port in policy.contract.inputs}
    before, command = compiled.step(good), np.full(4, 7.0, np.float32)
    kept = compiled.state.copy()
    for wrong in ({"position": [np.nan, 0, 0]}, {"goal_position": [0, np.inf, 0]}, {"orientation": [0, 0, 0, 0]}):
        assert compiled.call({**good, **wrong}, command) == 1
    assert (command == 7.0).all() and (compiled.state == kept).all() and before.any()


def test_a_named_size_has_to_be_fixed_and_a_family_needs_a_robot(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="say for which robot with --robot"):
        write_c99("quadrotor_foundation", tmp_path)
    with pytest.raises(UserError, match="--size points=4"):
        write_c99("quadrotor_foundation", tmp_path, robot=load_robot("crazyflie"))
