"""What a robot does beyond its physics model: a small network that `rlstack identify --residual` learns.

Its inputs are held at the ends of the range that the recordings had, and its outputs are bounded by what was left over
there, so that it stays what it was fitted for. The file is an ONNX model (opset 17, one layer of tanh), whose metadata
names the inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rlstack.arrays import Array
from rlstack.errors import UserError
from rlstack.files import write_atomically
from rlstack.fused import clip
from rlstack.sim.physics.body import Vector, vector

_OPSET = 17
_LARGEST = 4096
"""Most weights of a layer: more are no small network, and a fused step would take minutes to compile."""

Rows = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class ResidualModel:
    """A network of one hidden layer, as plain numbers, so that equal ones share a compiled step.

    Args:
        inputs: Names of the n inputs, with their units at the end.
        outputs: Names of the m outputs, likewise.
        low: (n,) ends of the inputs' ranges.
        high: (n,)
        hidden: (H, n) weights of the inputs, scaled to -1 to 1 over their range.
        hidden_bias: (H,)
        out: (m, H) weights; rows of zeros: outputs that are not used.
        out_bias: (m,)
        bound: (m,) largest size of each output.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    hidden: Rows
    hidden_bias: tuple[float, ...]
    out: Rows
    out_bias: tuple[float, ...]
    bound: tuple[float, ...]

    def apply(self, values: Sequence[Any]) -> Vector:
        """Return the outputs (m, ...) for inputs (n, ...), arrays or expressions of :mod:`rlstack.fused`."""
        scaled = [
            clip(value, low, high) * (2.0 / (high - low)) - (high + low) / (high - low)
            for value, low, high in zip(values, self.low, self.high)
        ]
        units = np.tanh(vector(*(_weighted(w, scaled, b) for w, b in zip(self.hidden, self.hidden_bias))))
        found = np.tanh(vector(*(_weighted(w, units, b) for w, b in zip(self.out, self.out_bias))))
        return vector(*(bound * one for bound, one in zip(self.bound, found)))

    @staticmethod
    def of(inputs: Sequence[str], outputs: Sequence[str], arrays: dict[str, Array]) -> ResidualModel:
        """Return the model of these arrays, by the names of its fields.

        Raises:
            UserError: They do not fit together.
        """
        rows = {name: np.asarray(array, dtype=float) for name, array in arrays.items()}
        n, m, h = len(inputs), len(outputs), len(rows["hidden_bias"])
        shapes = {"low": (n,), "high": (n,), "hidden": (h, n), "out": (m, h), "out_bias": (m,), "bound": (m,)}
        for name, shape in shapes.items():
            if rows[name].shape != shape or not np.isfinite(rows[name]).all():
                raise UserError(f"The residual model's {name} must be finite and of the shape {shape}.")
        if h * max(n, m) > _LARGEST or not (rows["low"] < rows["high"]).all() or (rows["bound"] < 0.0).any():
            raise UserError("The residual model is too large, or the range of an input or output is empty.")
        plain: dict[str, Any] = {name: _plain(array) for name, array in rows.items()}
        return ResidualModel(tuple(inputs), tuple(outputs), **plain)


def _weighted(weights: Sequence[float], values: Sequence[Any], bias: float) -> Any:
    total = 0.0 * values[0] + bias
    for weight, value in zip(weights, values):
        if weight:
            total = total + weight * value
    return total


def _plain(array: Array) -> Any:
    return tuple(map(_plain, array)) if array.ndim > 1 else tuple(float(one) for one in array)


_ARRAYS = ("low", "high", "hidden", "hidden_bias", "out", "out_bias", "bound")


def write_residual(path: Path, model: ResidualModel, about: str) -> None:
    """Write the file; ``about`` says where it comes from."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rows = {name: np.array(getattr(model, name), dtype=np.float32) for name in _ARRAYS}
    wide = rows["high"] - rows["low"]
    rows |= {"scale": 2.0 / wide, "shift": (rows["high"] + rows["low"]) / wide}
    nodes = [
        helper.make_node("Max", ["inputs", "low"], ["above"]),
        helper.make_node("Min", ["above", "high"], ["inside"]),
        helper.make_node("Mul", ["inside", "scale"], ["scaled"]),
        helper.make_node("Sub", ["scaled", "shift"], ["centred"]),
        helper.make_node("Gemm", ["centred", "hidden", "hidden_bias"], ["summed"], transB=1),
        helper.make_node("Tanh", ["summed"], ["units"]),
        helper.make_node("Gemm", ["units", "out", "out_bias"], ["raw"], transB=1),
        helper.make_node("Tanh", ["raw"], ["share"]),
        helper.make_node("Mul", ["share", "bound"], ["outputs"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", len(names)])
        for name, names in (("inputs", model.inputs), ("outputs", model.outputs))
    ]
    kept = [numpy_helper.from_array(array, name) for name, array in rows.items()]
    graph = helper.make_graph(nodes, "residual", [ends[0]], [ends[1]], kept)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="rlstack")
    made.ir_version = 8
    said = {"inputs": ",".join(model.inputs), "outputs": ",".join(model.outputs), "about": about}
    helper.set_model_props(made, said)
    onnx.checker.check_model(made)
    write_atomically(path, made.SerializeToString(), what="the residual model")


def read_residual(path: str | Path, inputs: Sequence[str], outputs: Sequence[str]) -> ResidualModel:
    """Read a file of :func:`write_residual`.

    Args:
        path: The file.
        inputs: Those that the robot's kind has.
        outputs: Likewise.

    Raises:
        UserError: There is no such file, it is none of `rlstack identify --residual`, or it is for another kind.
    """
    import onnx
    from onnx import numpy_helper

    path = Path(path).expanduser()
    if not path.is_file():
        raise UserError(
            f"There is no residual model {path}: `rlstack identify BAG --robot NAME --residual` writes one."
        )
    try:
        made = onnx.load(str(path), load_external_data=False)
        said = {one.key: one.value for one in made.metadata_props}
        arrays = {one.name: numpy_helper.to_array(one).astype(float) for one in made.graph.initializer}
        found = ResidualModel.of(
            said["inputs"].split(","), said["outputs"].split(","), {name: arrays[name] for name in _ARRAYS}
        )
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:  # protobuf raises what it likes on bytes that are no model
        raise UserError(f"{path} is no residual model of `rlstack identify --residual`.") from error
    if found.inputs != tuple(inputs) or found.outputs != tuple(outputs):
        raise UserError(f"{path} is for another kind of robot: its inputs are {', '.join(found.inputs)}.")
    return found
