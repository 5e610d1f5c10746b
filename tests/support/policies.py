"""Small real policies for tests: ONNX graphs written by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rlstack.kinds.quadrotor.spec import Quadrotor
from rlstack.policies import NEXT_STATE_PREFIX, STATE_PREFIX, contract_for, envelope_for, write_policy
from rlstack.robots.spec import STANDARD_GRAVITY

Array = NDArray[np.float64]

OPSET, IR_VERSION = 17, 8
ODOMETRY = ("position", "orientation", "linear_velocity", "angular_velocity")
HOVER_INPUTS = (*ODOMETRY, "goal_position")
TRACKING_INPUTS = (*ODOMETRY, "path_time", "path_position")


def hover_gains(robot: Quadrotor) -> Array:
    """Return LQR gains (rotors, 17) on position error, orientation xyzw, velocities and rotor speed error."""
    rotors, period = len(robot.rotors), 1.0 / robot.control_rate_hz
    hover, model = robot.hover_speed_rad_s, robot.rotor_model
    newton_per_speed = model.thrust_coefficients[1] + 2.0 * model.thrust_coefficients[2] * hover
    x, y = robot.rotor_positions[:, 0], robot.rotor_positions[:, 1]
    torques = np.stack([y, -x, robot.yaw_torque_signs * model.torque_per_thrust_m]) * newton_per_speed
    n = 12 + rotors  # position, velocity, turn (rad), rates, rotor speeds
    a, b = np.zeros((n, n)), np.zeros((n, rotors))
    a[0:3, 3:6] = a[6:9, 9:12] = np.eye(3)
    a[3, 7], a[4, 6] = STANDARD_GRAVITY, -STANDARD_GRAVITY
    a[5, 12:] = newton_per_speed / robot.body.mass_kg
    a[9:12, 12:] = torques / np.array(robot.body.inertia_kg_m2)[:, None]
    lag = 1.0 / max(model.rise_time_constant_s, model.fall_time_constant_s)
    a[12:, 12:], b[12:] = -lag * np.eye(rotors), lag * np.eye(rotors)
    series = sum(np.linalg.matrix_power(a * period, k) / float(_factorial(k + 1)) for k in range(12))
    a, b = np.eye(n) + a * period @ series, period * series @ b
    cost = np.diag([4.0] * 3 + [1.0] * 3 + [1.0, 1.0, 4.0] + [0.05] * 3 + [0.0] * rotors)
    effort = np.eye(rotors) * 3e-6
    p = cost
    for _ in range(3000):
        gain = np.linalg.solve(effort + b.T @ p @ b, b.T @ p @ a)
        p = cost + a.T @ p @ (a - b @ gain)
    turn = np.hstack([2.0 * gain[:, 6:9], np.zeros((rotors, 1))])  # of a quaternion's x, y, z, w
    return np.hstack([gain[:, 0:3], turn, gain[:, 3:6], gain[:, 9:12], gain[:, 12:]])


def write_hover_policy(path: Path, robot: Quadrotor, rate_hz: float | None = None) -> Path:
    """Write a linear hover controller on odometry and goal; the rotors' speeds are its recurrent state."""
    nodes, constants = _linear_control(robot, rate_hz)
    nodes = [
        helper.make_node("Sub", ["position", "goal_position"], ["error"]),
        helper.make_node("Identity", ["linear_velocity"], ["velocity_error"]),
        *nodes,
    ]
    return _write(path, robot, HOVER_INPUTS, nodes, constants, {"spin": (len(robot.rotors),)}, rate_hz)


def write_tracking_policy(path: Path, robot: Quadrotor) -> Path:
    """Write the same controller for the point of the path that is due, at its velocity; for headings near 0."""
    nodes, constants = _linear_control(robot, None)
    whole = {"zero": [0], "one": [1], "two": [2], "last": [-1], "end": [2**31]}
    constants.update({name: np.array(values, dtype=np.int64) for name, values in whole.items()})
    constants.update({"nothing": np.array(0.0), "all": np.array(1.0)})
    nodes = [
        helper.make_node("Slice", ["path_time", "zero", "last", "one"], ["t0"]),
        helper.make_node("Slice", ["path_time", "one", "end", "one"], ["t1"]),
        helper.make_node("Slice", ["path_position", "zero", "last", "one"], ["p0"]),
        helper.make_node("Slice", ["path_position", "one", "end", "one"], ["p1"]),
        helper.make_node("Slice", ["path_position", "zero", "one", "one"], ["first"]),
        helper.make_node("Sub", ["t1", "t0"], ["span"]),
        helper.make_node("Neg", ["t0"], ["gone"]),
        helper.make_node("Div", ["gone", "span"], ["part"]),
        helper.make_node("Clip", ["part", "nothing", "all"], ["share"]),
        helper.make_node("Unsqueeze", ["share", "two"], ["weight"]),
        helper.make_node("Sub", ["p1", "p0"], ["leg"]),
        helper.make_node("Mul", ["leg", "weight"], ["flown"]),
        helper.make_node("ReduceSum", ["flown", "one"], ["along"], keepdims=0),
        helper.make_node("Squeeze", ["first", "one"], ["begin"]),
        helper.make_node("Add", ["begin", "along"], ["due"]),
        helper.make_node("Sub", ["position", "due"], ["error"]),
        helper.make_node("LessOrEqual", ["t0", "nothing"], ["begun"]),
        helper.make_node("Greater", ["t1", "nothing"], ["lasting"]),
        helper.make_node("And", ["begun", "lasting"], ["present"]),
        helper.make_node("Cast", ["present"], ["chosen"], to=TensorProto.FLOAT),
        helper.make_node("Div", ["chosen", "span"], ["rate"]),
        helper.make_node("Unsqueeze", ["rate", "two"], ["rates"]),
        helper.make_node("Mul", ["leg", "rates"], ["velocities"]),
        helper.make_node("ReduceSum", ["velocities", "one"], ["velocity"], keepdims=0),
        helper.make_node("Sub", ["linear_velocity", "velocity"], ["velocity_error"]),
        *nodes,
    ]
    return _write(
        path, robot, TRACKING_INPUTS, nodes, constants, {"spin": (len(robot.rotors),)}, task="quadrotor_tracking"
    )


def _linear_control(robot: Quadrotor, rate_hz: float | None) -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    """Return nodes from ``error`` and ``velocity_error`` to the command, and their constants."""
    period = 1.0 / (rate_hz or robot.control_rate_hz)
    constants = {
        "gains": -hover_gains(robot).T,
        "hover": np.full(len(robot.rotors), robot.hover_speed_rad_s),
        "low": np.array(robot.rotor_model.speed_min_rad_s),
        "high": np.array(robot.rotor_model.speed_max_rad_s),
        "lag": np.array(1.0 - np.exp(-period / robot.rotor_model.rise_time_constant_s)),
    }
    spin, next_spin = STATE_PREFIX + "spin", NEXT_STATE_PREFIX + "spin"  # departure from the hover speed
    nodes = [
        helper.make_node("Concat", ["error", "orientation", "velocity_error", "angular_velocity", spin], ["x"], axis=1),
        helper.make_node("MatMul", ["x", "gains"], ["change"]),
        helper.make_node("Add", ["change", "hover"], ["wanted"]),
        helper.make_node("Clip", ["wanted", "low", "high"], ["rotor_speed"]),
        helper.make_node("Sub", ["rotor_speed", "hover"], ["commanded"]),
        helper.make_node("Sub", ["commanded", spin], ["apart"]),
        helper.make_node("Mul", ["apart", "lag"], ["gained"]),
        helper.make_node("Add", [spin, "gained"], [next_spin]),
    ]
    return nodes, constants


def write_constant_policy(
    path: Path, robot: Quadrotor, speed: float, inputs: tuple[str, ...] = ("position",), rate_hz: float | None = None
) -> Path:
    """Write a policy that always commands ``speed`` rad/s; it reads ``inputs`` and ignores them."""
    constants = {"nothing": np.zeros((3, len(robot.rotors))), "speed": np.full(len(robot.rotors), speed)}
    nodes = [
        helper.make_node("MatMul", [inputs[0], "nothing"], ["zero"]),
        helper.make_node("Add", ["zero", "speed"], ["rotor_speed"]),
    ]
    for name in inputs[1:]:  # used, so that the graph takes them
        nodes.insert(0, helper.make_node("Identity", [name], [f"unused_{name}"]))
    return _write(path, robot, inputs, nodes, constants, rate_hz=rate_hz)


def write_still_policy(path: Path, robot: Any, inputs: tuple[str, ...], command: str) -> Path:
    """Write a policy of any robot that commands nothing but 0, or the nearest allowed; it ignores its ``inputs``."""
    contract = contract_for(robot, inputs, [command], name=path.stem, task="test")
    contract = replace(contract, envelope=envelope_for(robot, contract.inputs, contract.rate_hz))
    (given,), taken = contract.outputs, contract.inputs
    nothing = np.zeros((int(taken[0].shape[0]), int(given.shape[0])), dtype=np.float32)
    nearest = np.clip(0.0, *given.limits).astype(np.float32)
    nodes = [helper.make_node("Identity", [port.name], [f"unused_{port.name}"]) for port in taken[1:]]
    nodes.append(helper.make_node("MatMul", [taken[0].name, "nothing"], ["zero"]))
    nodes.append(helper.make_node("Add", ["zero", "nearest"], [command]))
    graph = helper.make_graph(
        nodes,
        path.stem,
        [_tensor(port.name, port.shape) for port in taken],
        [_tensor(command, given.shape)],
        [numpy_helper.from_array(nothing, "nothing"), numpy_helper.from_array(nearest, "nearest")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_policy(model, contract, path)
    return path


def write_counting_policy(path: Path, robot: Quadrotor) -> Path:
    """Write a recurrent policy that commands 100 rad/s plus the number of its earlier steps since a reset."""
    rotors = len(robot.rotors)
    constants = {"nothing": np.zeros((3, 1)), "one": np.ones(1), "base": np.full(rotors, 100.0)}
    nodes = [
        helper.make_node("MatMul", ["position", "nothing"], ["zero"]),
        helper.make_node("Add", [STATE_PREFIX + "count", "zero"], ["count"]),
        helper.make_node("Add", ["count", "one"], [NEXT_STATE_PREFIX + "count"]),
        helper.make_node("Add", ["count", "base"], ["rotor_speed"]),
    ]
    return _write(path, robot, ("position",), nodes, constants, {"count": (1,)})


def _write(
    path: Path,
    robot: Quadrotor,
    inputs: tuple[str, ...],
    nodes: list[onnx.NodeProto],
    constants: dict[str, Array],
    state: dict[str, tuple[int, ...]] | None = None,
    rate_hz: float | None = None,
    task: str = "test",
) -> Path:
    contract = contract_for(robot, inputs, ["rotor_speed"], name=path.stem, task=task, state=state, rate_hz=rate_hz)
    contract = replace(contract, envelope=envelope_for(robot, contract.inputs, contract.rate_hz))
    taken = [(port.name, port.shape) for port in contract.inputs]
    given = [("rotor_speed", contract.outputs[0].shape)]
    taken += [(STATE_PREFIX + s.name, s.shape) for s in contract.state]
    given += [(NEXT_STATE_PREFIX + s.name, s.shape) for s in contract.state]
    graph = helper.make_graph(
        nodes,
        path.stem,
        [_tensor(*item) for item in taken],
        [_tensor(*item) for item in given],
        [numpy_helper.from_array(_plain(v), name) for name, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    write_policy(model, contract, path)
    return path


def _plain(values: Array) -> Array:
    return values if values.dtype == np.int64 else np.asarray(values, dtype=np.float32)


def _tensor(name: str, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])


def _factorial(k: int) -> int:
    return 1 if k < 2 else k * _factorial(k - 1)
