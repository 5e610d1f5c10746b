"""Many ONNX graphs as C, compiled at once: all sources are one translation unit."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from rlstack.policies.c99.lower import lower
from rlstack.policies.c99.source import header, source
from rlstack.policies.contract import Contract, Port

from .compiled_policy import COMPILERS

OPSET = 20


def contract_of(shape: tuple[int, ...], out: tuple[int, ...]) -> Contract:
    """Return the contract of a graph from ``x`` (1, \\*shape) to ``out`` (1, \\*out)."""
    size = int(np.prod(out, dtype=int))
    limits = {"minimum": (-3e38,) * size, "maximum": (3e38,) * size}
    return Contract(
        schema_version=2,
        name="n",
        task="t",
        robot="r",
        rate_hz=1.0,
        inputs=(Port(name="x", shape=shape, unit="1", frame="", topic="t", type="", field=""),),
        outputs=(Port(name="out", shape=out, unit="1", frame="", topic="t", type="", field="", **limits),),
        code_version="0",
    )


def graph_of(
    nodes: Sequence[onnx.NodeProto], constants: Mapping[str, NDArray[Any]], shape: tuple[int, ...]
) -> onnx.GraphProto:
    """Return a graph from ``x`` (1, \\*shape) to ``out`` (1, \\*any)."""
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, *shape))
    wanted = helper.make_tensor_value_info("out", TensorProto.FLOAT, None)
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return helper.make_graph(list(nodes), "g", [given], [wanted], initializers)


def answer(graph: onnx.GraphProto, x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return what onnxruntime gives."""
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


class CompiledGraphs:
    """Graphs by number, called through ctypes.

    Args:
        graphs: Of :func:`graph_of`.
        shapes: Of each graph its input and its output, without the batch.
        folder: Where the library is written.
    """

    def __init__(
        self, graphs: Sequence[onnx.GraphProto], shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], folder: Path
    ) -> None:
        texts = []
        self._sizes = []
        for number, (graph, (given, out)) in enumerate(zip(graphs, shapes)):
            contract, name = contract_of(given, out), f"graph_{number}"
            program = lower(graph, contract, name)
            written = source(program, contract, name).replace(
                f'#include "{name}.h"', header(program, contract, name, "")
            )
            own = set(re.findall(r"^static [\w ]+? \*?(\w+)[\[(]", written, re.MULTILINE))
            if own:  # two graphs both have a constant_0
                written = re.sub(rf"\b({'|'.join(own)})\b", rf"{name}_\1", written)
            texts.append(written)
            self._sizes.append((out, 4 * (1 + sum(program.scratch.values()))))
        file, library = folder / "graphs.c", folder / "graphs.so"
        file.write_text("\n".join(texts))
        words = [*COMPILERS[0].command, "-O0", "-shared", "-fPIC", "-o", str(library), str(file), "-lm"]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        self._library = ctypes.CDLL(str(library))

    def __call__(self, number: int, x: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return what a graph gives."""
        shape, scratch = self._sizes[number]
        found, state = np.zeros((1, *shape), np.float32), np.zeros(scratch, np.uint8)
        pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (state, np.ascontiguousarray(x), found)]
        assert getattr(self._library, f"graph_{number}_step")(*pointers) == 0
        return found
