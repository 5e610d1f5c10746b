"""Small real ONNX graphs, and the sealing of a policy file written out by hand from its documentation."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from rlstack import schema
from rlstack.kinds.quadrotor.spec import Quadrotor, load_quadrotor
from rlstack.policies import METADATA_KEY, Contract, contract_for, contract_for_family

INPUTS = ("position", "orientation", "linear_velocity", "angular_velocity")
SIZES = {"position": 3, "orientation": 4, "linear_velocity": 3, "angular_velocity": 3}
HIDDEN = 8


def crazyflie() -> Quadrotor:
    return load_quadrotor("crazyflie")


def weights(seed: int = 0, inputs: int = 13, hidden: int = HIDDEN) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"w1": (inputs, hidden), "b1": (hidden,), "w2": (hidden, 4), "b2": (4,)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["w2"] *= 300.0
    arrays["b2"] += 1000.0
    return arrays


def mlp_contract(**changes: Any) -> Contract:
    return contract_for(crazyflie(), INPUTS, ["rotor_speed"], **{"name": "mlp", "task": "quadrotor_hover", **changes})


def mlp_model(arrays: dict[str, np.ndarray] | None = None) -> onnx.ModelProto:
    """Concatenate, Gemm, Tanh, Gemm, Clip."""
    arrays = {**weights(), **(arrays or {}), "low": np.float32(0.0), "high": np.float32(2272.6)}
    nodes = [
        helper.make_node("Concat", INPUTS, ["x"], axis=1),
        helper.make_node("Gemm", ["x", "w1", "b1"], ["g1"]),
        helper.make_node("Tanh", ["g1"], ["h"]),
        helper.make_node("Gemm", ["h", "w2", "b2"], ["g2"]),
        helper.make_node("Clip", ["g2", "low", "high"], ["rotor_speed"]),
    ]
    return model(nodes, {n: [SIZES[n]] for n in INPUTS}, {"rotor_speed": [4]}, arrays)


def mlp_reference(arrays: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> np.ndarray:
    x = np.concatenate([inputs[n] for n in INPUTS], axis=-1)
    y = np.tanh(x @ arrays["w1"].astype(float) + arrays["b1"]) @ arrays["w2"].astype(float) + arrays["b2"]
    return np.clip(y, 0.0, 2272.6)


def gru_contract(**changes: Any) -> Contract:
    return mlp_contract(**{"name": "gru", "state": {"hidden": (HIDDEN,)}, **changes})


def gru_weights(seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = weights(seed)
    shapes = {"w": (1, 3 * HIDDEN, 13), "r": (1, 3 * HIDDEN, HIDDEN), "b": (1, 6 * HIDDEN)}
    return arrays | {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def gru_model() -> onnx.ModelProto:
    """ONNX's own GRU operator over one step, then a linear layer."""
    arrays: dict[str, np.ndarray] = {k: v for k, v in gru_weights().items() if k not in ("w1", "b1")}
    arrays |= {"axis": np.array([0], np.int64), "low": np.float32(0.0), "high": np.float32(2272.6)}
    nodes = [
        helper.make_node("Concat", INPUTS, ["x"], axis=1),
        helper.make_node("Unsqueeze", ["x", "axis"], ["sequence"]),
        helper.make_node("Unsqueeze", ["state.hidden", "axis"], ["before"]),
        helper.make_node("GRU", ["sequence", "w", "r", "b", "", "before"], ["", "after"], hidden_size=HIDDEN),
        helper.make_node("Squeeze", ["after", "axis"], ["next_state.hidden"]),
        helper.make_node("Gemm", ["next_state.hidden", "w2", "b2"], ["g"]),
        helper.make_node("Clip", ["g", "low", "high"], ["rotor_speed"]),
    ]
    inputs = {n: [SIZES[n]] for n in INPUTS} | {"state.hidden": [HIDDEN]}
    return model(nodes, inputs, {"rotor_speed": [4], "next_state.hidden": [HIDDEN]}, arrays)


PATH_INPUTS = ("position", "path_time", "path_position", "path_orientation")
PATH_SHAPES: dict[str, list[int | str]] = {
    "position": [3],
    "path_time": ["points"],
    "path_position": ["points", 3],
    "path_orientation": ["points", 4],
}


def path_contract(**changes: Any) -> Contract:
    return contract_for(
        crazyflie(),
        PATH_INPUTS,
        ["rotor_speed"],
        **{"name": "path", "task": "quadrotor_tracking", "state": {"calls": (4,)}, **changes},
    )


def path_model(**options: Any) -> onnx.ModelProto:
    """1000 rad/s plus 100 for each metre to where the path is now, in x, y and z, and 10 for each call before."""
    arrays = {
        "zero": np.array([0], np.int64),
        "one": np.array([1], np.int64),
        "two": np.array([2], np.int64),
        "last": np.array([-1], np.int64),
        "end": np.array([2**31], np.int64),
        "low": np.float32(0.0),
        "high": np.float32(1.0),
        "ten": np.float32(10.0),
        "step": np.ones((1, 4), np.float32),
        "gain": 100.0 * np.eye(3, 4, dtype=np.float32),
        "base": np.full(4, 1000.0, np.float32),
        "slowest": np.float32(0.0),
        "fastest": np.float32(2272.6),
    }
    nodes = [
        helper.make_node("Slice", ["path_time", "zero", "last", "one"], ["t0"]),
        helper.make_node("Slice", ["path_time", "one", "end", "one"], ["t1"]),
        helper.make_node("Slice", ["path_position", "zero", "last", "one"], ["p0"]),
        helper.make_node("Slice", ["path_position", "one", "end", "one"], ["p1"]),
        helper.make_node("Slice", ["path_position", "zero", "one", "one"], ["first"]),
        helper.make_node("Sub", ["t1", "t0"], ["span"]),
        helper.make_node("Neg", ["t0"], ["gone"]),
        helper.make_node("Div", ["gone", "span"], ["part"]),
        helper.make_node("Clip", ["part", "low", "high"], ["share"]),
        helper.make_node("Unsqueeze", ["share", "two"], ["weight"]),
        helper.make_node("Sub", ["p1", "p0"], ["leg"]),
        helper.make_node("Mul", ["leg", "weight"], ["flown"]),
        helper.make_node("ReduceSum", ["flown", "one"], ["along"], keepdims=0),
        helper.make_node("Squeeze", ["first", "one"], ["begin"]),
        helper.make_node("Add", ["begin", "along"], ["now"]),
        helper.make_node("Sub", ["now", "position"], ["error"]),
        helper.make_node("Gemm", ["error", "gain", "base"], ["wanted"]),
        helper.make_node("Mul", ["state.calls", "ten"], ["more"]),
        helper.make_node("Add", ["wanted", "more"], ["sum"]),
        helper.make_node("Clip", ["sum", "slowest", "fastest"], ["rotor_speed"]),
        helper.make_node("Add", ["state.calls", "step"], ["next_state.calls"]),
        helper.make_node("Identity", ["path_orientation"], ["unused"]),
    ]
    inputs = {**PATH_SHAPES, "state.calls": [4], **options.pop("inputs", {})}
    return model(nodes, inputs, {"rotor_speed": [4], "next_state.calls": [4]}, arrays, **options)


def path_reference(inputs: dict[str, np.ndarray], calls: int = 0) -> np.ndarray:
    """What :func:`path_model` commands one robot."""
    now = [np.interp(0.0, inputs["path_time"], inputs["path_position"][:, i]) for i in range(3)]
    error = np.append(now - inputs["position"], 0.0)
    return np.clip(1000.0 + 100.0 * error + 10.0 * calls, 0.0, 2272.6)


FAMILY = {"mass_kg": (0.02, 5.0), "thrust_to_weight": (1.5, 5.0), "torque_per_thrust_m": (0.005, 0.05)}
FAMILY_INPUTS = (
    "position",
    "angular_velocity",
    "rotor_position",
    "rotor_yaw_sign",
    "rotor_speed_min",
    "rotor_speed_max",
)


def family_contract(family: Mapping[str, tuple[float, float]] | None = None, **changes: Any) -> Contract:
    facts: dict[str, Any] = {"name": "any", "task": "quadrotor_foundation", "rate_hz": 100.0, "robot": "quadrotor"}
    facts["state"] = {"calls": (1,)}
    return contract_for_family(family or FAMILY, FAMILY_INPUTS, ["rotor_speed"], **{**facts, **changes})


def family_model() -> onnx.ModelProto:
    """Half of the range, and of it more for rotors on the side of ``position`` and for those that turn against the yaw
    rate; 0.01 more for each call before; clipped to the robot's range."""
    arrays = {
        "one": np.array([1], np.int64),
        "two": np.array([2], np.int64),
        "three": np.array([3], np.int64),
        "half": np.float32(0.5),
        "step": np.ones(1, np.float32),
        "slow": np.float32(0.01),
        "tenth": np.float32(-0.1),
        "least": np.float32(0.0),
        "most": np.float32(1.0),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["position", "two"], ["column"]),
        helper.make_node("MatMul", ["rotor_position", "column"], ["moments"]),
        helper.make_node("Squeeze", ["moments", "two"], ["moment"]),
        helper.make_node("Slice", ["angular_velocity", "two", "three", "one"], ["yaw"]),
        helper.make_node("Mul", ["rotor_yaw_sign", "yaw"], ["turn"]),
        helper.make_node("Mul", ["turn", "tenth"], ["against"]),
        helper.make_node("Mul", ["state.calls", "slow"], ["grown"]),
        helper.make_node("Sum", ["half", "moment", "against", "grown"], ["wanted"]),
        helper.make_node("Clip", ["wanted", "least", "most"], ["share"]),
        helper.make_node("Sub", ["rotor_speed_max", "rotor_speed_min"], ["span"]),
        helper.make_node("Mul", ["share", "span"], ["above"]),
        helper.make_node("Add", ["rotor_speed_min", "above"], ["rotor_speed"]),
        helper.make_node("Add", ["state.calls", "step"], ["next_state.calls"]),
    ]
    inputs = {"position": [3], "angular_velocity": [3], "rotor_position": [4, 3], "rotor_yaw_sign": [4]}
    inputs |= {"rotor_speed_min": [1], "rotor_speed_max": [1], "state.calls": [1]}
    return model(nodes, inputs, {"rotor_speed": [4], "next_state.calls": [1]}, arrays)


def family_reference(robot: Quadrotor, position: np.ndarray, yaw_rate: float, calls: int = 0) -> np.ndarray:
    """What :func:`family_model` commands one robot."""
    share = 0.5 + robot.rotor_positions @ position - 0.1 * yaw_rate * robot.yaw_torque_signs + 0.01 * calls
    low, high = robot.rotor_model.speed_min_rad_s, robot.rotor_model.speed_max_rad_s
    return low + np.clip(share, 0.0, 1.0) * (high - low)


def gru_reference(arrays: dict[str, np.ndarray], x: np.ndarray, h: np.ndarray) -> np.ndarray:
    """One step by ONNX's formula (gates z, r, h; linear_before_reset = 0)."""
    w, r, b = (arrays[k][0].astype(float) for k in ("w", "r", "b"))
    wz, wr, wh = np.split(w, 3)
    rz, rr, rh = np.split(r, 3)
    bz, br, bh, cz, cr, ch = np.split(b, 6)
    z = 1.0 / (1.0 + np.exp(-(x @ wz.T + h @ rz.T + bz + cz)))
    gate = 1.0 / (1.0 + np.exp(-(x @ wr.T + h @ rr.T + br + cr)))
    candidate = np.tanh(x @ wh.T + (gate * h) @ rh.T + ch + bh)
    return (1.0 - z) * candidate + z * h


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: dict[str, list[int]],
    constants: dict[str, np.ndarray] | None = None,
    *,
    batch: str | int = "batch",
    kind: int = TensorProto.FLOAT,
    opsets: Sequence[tuple[str, int]] = (("", 18),),
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "policy",
        [helper.make_tensor_value_info(n, kind, [batch, *shape]) for n, shape in inputs.items()],
        [helper.make_tensor_value_info(n, kind, [batch, *shape]) for n, shape in outputs.items()],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in (constants or {}).items()],
    )
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets]
    return helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)


def sealed(bare: onnx.ModelProto, contract: Contract | dict[str, Any]) -> bytes:
    """Return a policy file with the right hash and nothing checked: the hash as the documentation gives it."""
    data = schema.to_data(contract) if isinstance(contract, Contract) else contract
    body = bare.SerializeToString(deterministic=True)
    empty = json.dumps({**data, "sha256": ""}, sort_keys=True, separators=(",", ":")).encode()
    data = {**data, "sha256": hashlib.sha256(body + empty).hexdigest()}
    return with_text(bare, json.dumps(data, sort_keys=True, separators=(",", ":")))


def with_text(bare: onnx.ModelProto, *texts: str) -> bytes:
    """Return the model with each text as a metadata entry under rlstack's key."""
    filled = onnx.ModelProto()
    filled.CopyFrom(bare)
    for text in texts:
        filled.metadata_props.add(key=METADATA_KEY, value=text)
    return filled.SerializeToString(deterministic=True)


def put(folder: Path, data: bytes) -> Path:
    path = folder / "policy.onnx"
    path.write_bytes(data)
    return path


def random_inputs(seed: int, *batch: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(*batch, SIZES[name])) for name in INPUTS}
